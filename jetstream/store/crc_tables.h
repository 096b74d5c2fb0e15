/* Checksums of 32 bits by eight tables, eight bytes a step ("slicing by eight"), of any polynomial. */
#ifndef MIDGE_CRC_TABLES_H
#define MIDGE_CRC_TABLES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint32_t midge_tables[8][256];

/* Make the tables of a polynomial, with its bits in reverse order. */
static void midge_make_tables(midge_tables table, uint32_t polynomial) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (polynomial & (0u - (crc & 1)));
        table[0][i] = crc;
    }
    for (int slice = 1; slice < 8; slice++)
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t before = table[slice - 1][i];
            table[slice][i] = before >> 8 ^ table[0][before & 255];
        }
}

/* Return the checksum of what `crc` stands for and of `length` bytes behind it, not inverted. */
static inline uint32_t midge_crc_by_tables(
    midge_tables table, uint32_t crc, const unsigned char *data, size_t length) {
    for (; length >= 8; data += 8, length -= 8) {
        uint32_t low, high;
        memcpy(&low, data, 4);
        memcpy(&high, data + 4, 4);
        low ^= crc;
        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^
              table[4][low >> 24] ^ table[3][high & 255] ^ table[2][high >> 8 & 255] ^
              table[1][high >> 16 & 255] ^ table[0][high >> 24];
    }
    while (length--) crc = crc >> 8 ^ table[0][(crc ^ *data++) & 255];
    return crc;
}

#endif
