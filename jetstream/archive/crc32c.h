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

static void midge_crc32c_setup(void) {
    midge_make_tables(midge_crc32c_table, 0x82F63B78u);
#if defined(__x86_64__)
    __builtin_cpu_init();
    midge_has_crc32c = __builtin_cpu_supports("sse4.2");
#endif
}

#if defined(__x86_64__)
__attribute__((target("sse4.2,crc32"))) static uint32_t midge_crc32c_fast(
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

static uint32_t midge_crc32c(const unsigned char *data, size_t length, int by_tables) {
#if defined(__x86_64__)
    if (midge_has_crc32c && !by_tables) return ~midge_crc32c_fast(~0u, data, length);
#else
    (void)by_tables;
#endif
    return ~midge_crc_by_tables(midge_crc32c_table, ~0u, data, length);
}

#endif
