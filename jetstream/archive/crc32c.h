/* CRC-32C: by its instruction where the processor has it, otherwise by eight tables. */
#ifndef MIDGE_CRC32C_H
#define MIDGE_CRC32C_H

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

static uint32_t midge_crc32c_table[8][256];
static int midge_has_crc32c;

static void midge_crc32c_setup(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0x82F63B78u & (0u - (crc & 1)));
        midge_crc32c_table[0][i] = crc;
    }
    for (int slice = 1; slice < 8; slice++)
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t before = midge_crc32c_table[slice - 1][i];
            midge_crc32c_table[slice][i] = before >> 8 ^ midge_crc32c_table[0][before & 255];
        }
#if defined(__x86_64__)
    __builtin_cpu_init();
    midge_has_crc32c = __builtin_cpu_supports("sse4.2");
#endif
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t midge_crc32c_fast(
    uint32_t crc, const unsigned char *data, size_t length) {
    uint64_t wide = crc;
    for (; length >= 8; data += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    while (length--) crc = _mm_crc32_u8(crc, *data++);
    return crc;
}
#endif

static uint32_t midge_crc32c_tables(uint32_t crc, const unsigned char *data, size_t length) {
    for (; length >= 8; data += 8, length -= 8) {
        uint32_t low, high;
        memcpy(&low, data, 4);
        memcpy(&high, data + 4, 4);
        low ^= crc;
        crc = midge_crc32c_table[7][low & 255] ^ midge_crc32c_table[6][low >> 8 & 255] ^
              midge_crc32c_table[5][low >> 16 & 255] ^ midge_crc32c_table[4][low >> 24] ^
              midge_crc32c_table[3][high & 255] ^ midge_crc32c_table[2][high >> 8 & 255] ^
              midge_crc32c_table[1][high >> 16 & 255] ^ midge_crc32c_table[0][high >> 24];
    }
    while (length--) crc = crc >> 8 ^ midge_crc32c_table[0][(crc ^ *data++) & 255];
    return crc;
}

static uint32_t midge_crc32c(const unsigned char *data, size_t length, int by_tables) {
#if defined(__x86_64__)
    if (midge_has_crc32c && !by_tables) return ~midge_crc32c_fast(~0u, data, length);
#else
    (void)by_tables;
#endif
    return ~midge_crc32c_tables(~0u, data, length);
}

#endif
