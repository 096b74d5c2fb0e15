/* CRC-32C: by its instruction where the processor has it, otherwise by eight tables. */
#ifndef MIDGE_CRC32C_H
#define MIDGE_CRC32C_H

#include <stdint.h>
#include <string.h>

#include "../store/crc_tables.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

static midge_tables midge_crc32c_table;
static int midge_has_crc32c;

#if defined(__x86_64__)
#define MIDGE_LANE 1024 /* bytes, a multiple of eight */

/* What each octet of a checksum becomes behind a lane of zeros. */
static uint32_t midge_behind_lane[4][256];

static void midge_fill_behind_lane(void) {
    static const unsigned char zeros[MIDGE_LANE];
    for (int octet = 0; octet < 4; octet++)
        for (uint32_t i = 1; i < 256; i++) {
            uint32_t bit = i & (0u - i); /* checksums are linear: two known ones make the third */
            midge_behind_lane[octet][i] =
                i != bit ? midge_behind_lane[octet][bit] ^ midge_behind_lane[octet][i ^ bit]
                         : midge_crc_by_tables(
                               midge_crc32c_table, bit << 8 * octet, zeros, MIDGE_LANE);
        }
}

static uint64_t midge_behind(uint64_t crc) {
    return midge_behind_lane[0][crc & 255] ^ midge_behind_lane[1][crc >> 8 & 255] ^
           midge_behind_lane[2][crc >> 16 & 255] ^ midge_behind_lane[3][crc >> 24 & 255];
}

/* The instruction takes three cycles, and can begin in each: three lanes fill them. */
__attribute__((target("sse4.2,crc32"))) static uint32_t midge_crc32c_fast(
    uint32_t crc, const unsigned char *data, size_t length) {
    uint64_t first = crc, words[3];
    for (; length >= 3 * MIDGE_LANE; data += 3 * MIDGE_LANE, length -= 3 * MIDGE_LANE) {
        uint64_t second = 0, third = 0;
        for (const unsigned char *at = data; at < data + MIDGE_LANE; at += 8) {
            memcpy(words, at, 8);
            memcpy(words + 1, at + MIDGE_LANE, 8);
            memcpy(words + 2, at + 2 * MIDGE_LANE, 8);
            first = _mm_crc32_u64(first, words[0]);
            second = _mm_crc32_u64(second, words[1]);
            third = _mm_crc32_u64(third, words[2]);
        }
        first = midge_behind(midge_behind(first) ^ second) ^ third;
    }
    for (; length >= 8; data += 8, length -= 8) {
        memcpy(words, data, 8);
        first = _mm_crc32_u64(first, words[0]);
    }
    crc = (uint32_t)first;
    while (length--) crc = _mm_crc32_u8(crc, *data++);
    return crc;
}
#endif

static void midge_crc32c_setup(void) {
    midge_make_tables(midge_crc32c_table, 0x82F63B78u);
#if defined(__x86_64__)
    midge_fill_behind_lane();
    __builtin_cpu_init();
    midge_has_crc32c = __builtin_cpu_supports("sse4.2");
#endif
}

static uint32_t midge_crc32c(const unsigned char *data, size_t length, int by_tables) {
#if defined(__x86_64__)
    if (midge_has_crc32c && !by_tables) return ~midge_crc32c_fast(~0u, data, length);
#else
    (void)by_tables;
#endif
    return ~midge_crc_by_tables(midge_crc32c_table, ~0u, data, length);
}

#endif
