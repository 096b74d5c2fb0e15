/* The checksums of records and groups: CRC-32 as zlib has it; native.py has the contracts. */
#ifndef MIDGE_STORE_CHECKSUMS_H
#define MIDGE_STORE_CHECKSUMS_H

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../crc_tables.h"

/* The layout of a record; records.py documents it. */
enum {
    MIDGE_HEAD = 48,
    MIDGE_KIND_GROUP = 1,
    MIDGE_GROUP_CHAIN = 60, /* the checksum over the checksums, in the body of a group's head */
};

static inline uint32_t midge_u32(const unsigned char *data) {
    uint32_t value;
    memcpy(&value, data, 4);
    return value;
}

static inline void midge_set_u32(unsigned char *data, uint32_t value) { memcpy(data, &value, 4); }

static midge_tables midge_crc_table;

static void midge_crc_prepare(void) { midge_make_tables(midge_crc_table, 0xEDB88320u); }

static uint32_t midge_crc_tables(uint32_t crc, const unsigned char *data, size_t length) {
    return midge_crc_by_tables(midge_crc_table, crc, data, length);
}

#if defined(__x86_64__)
#include <immintrin.h>

static int midge_has_clmul;

__attribute__((target("pclmul,sse4.1"))) static inline __m128i midge_16(
    const unsigned char *data) {
    return _mm_loadu_si128((const __m128i *)data);
}

/* Fold with carry-less multiplications, as Intel's paper on fast CRC computation describes it; the
 * constants are x^n modulo the reflected polynomial. */
#define MIDGE_BY_64 _mm_set_epi64x(0x01c6e41596, 0x0154442bd4)
#define MIDGE_BY_16 _mm_set_epi64x(0x00ccaa009e, 0x01751997d0)
#define MIDGE_FOLD(value, constants, next)                                           \
    _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(value, constants, 0x00),        \
                                _mm_clmulepi64_si128(value, constants, 0x11)),       \
                  next)

/* The checksum of what `a` stands for and of `length` bytes behind it, a multiple of 16. */
__attribute__((target("pclmul,sse4.1"))) static inline uint32_t midge_crc_fold_16(
    __m128i a, const unsigned char *data, size_t length) {
    const __m128i low_32 = _mm_set_epi64x(0, 0xFFFFFFFF);
    while (length >= 16) {
        a = MIDGE_FOLD(a, MIDGE_BY_16, midge_16(data));
        data += 16;
        length -= 16;
    }
    /* 128 bits to 64, 64 to 32 (Barrett). */
    __m128i b = _mm_clmulepi64_si128(a, MIDGE_BY_16, 0x10);
    a = _mm_xor_si128(_mm_srli_si128(a, 8), b);
    b = _mm_srli_si128(a, 4);
    a = _mm_and_si128(a, low_32);
    a = _mm_clmulepi64_si128(a, _mm_set_epi64x(0, 0x0163cd6124), 0x00);
    a = _mm_xor_si128(a, b);
    const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
    b = _mm_and_si128(a, low_32);
    b = _mm_clmulepi64_si128(b, barrett, 0x10);
    b = _mm_and_si128(b, low_32);
    b = _mm_clmulepi64_si128(b, barrett, 0x00);
    a = _mm_xor_si128(a, b);
    return (uint32_t)_mm_extract_epi32(a, 1);
}

/* The same 64 bytes a step; `a` to `d` stand for what comes first. */
__attribute__((target("pclmul,sse4.1"))) static inline uint32_t midge_crc_fold(
    __m128i a, __m128i b, __m128i c, __m128i d, const unsigned char *data, size_t length) {
    while (length >= 64) {
        a = MIDGE_FOLD(a, MIDGE_BY_64, midge_16(data));
        b = MIDGE_FOLD(b, MIDGE_BY_64, midge_16(data + 16));
        c = MIDGE_FOLD(c, MIDGE_BY_64, midge_16(data + 32));
        d = MIDGE_FOLD(d, MIDGE_BY_64, midge_16(data + 48));
        data += 64;
        length -= 64;
    }
    a = MIDGE_FOLD(a, MIDGE_BY_16, b);
    a = MIDGE_FOLD(a, MIDGE_BY_16, c);
    a = MIDGE_FOLD(a, MIDGE_BY_16, d);
    return midge_crc_fold_16(a, data, length);
}

/* `length` is a multiple of 16 and at least 64. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t midge_crc_folded(
    uint32_t crc, const unsigned char *data, size_t length) {
    __m128i first = _mm_xor_si128(midge_16(data), _mm_cvtsi32_si128((int)crc));
    return midge_crc_fold(first, midge_16(data + 16), midge_16(data + 32), midge_16(data + 48),
                          data + 64, length - 64);
}

/* The checksum of `length` bytes, at least 4, where the 15 bytes before them can be read, without
 * tables: these are taken for zeros, so that what follows ends a whole number of 16 bytes. */
__attribute__((target("pclmul,sse4.1"))) static inline uint32_t midge_crc_behind(
    uint32_t crc, const unsigned char *data, size_t length) {
    static const unsigned char no_bytes[32] = {
        0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    static const unsigned char word_at[48] = {
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
        0,   1,   2,   3,   255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    size_t before = -length & 15;
    __m128i word = _mm_cvtsi32_si128((int)crc);
    __m128i a = _mm_and_si128(midge_16(data - before), midge_16(no_bytes + 16 - before));
    a = _mm_xor_si128(a, _mm_shuffle_epi8(word, midge_16(word_at + 16 - before)));
    data += 16 - before;
    length += before;
    length -= 16;
    if (length == 0) return midge_crc_fold_16(a, data, 0);
    word = _mm_shuffle_epi8(word, midge_16(word_at + 32 - before));
    __m128i b = _mm_xor_si128(midge_16(data), word);
    if (length >= 48)
        return midge_crc_fold(a, b, midge_16(data + 16), midge_16(data + 32), data + 48, length - 48);
    return midge_crc_fold_16(MIDGE_FOLD(a, MIDGE_BY_16, b), data + 16, length - 16);
}

/* See midge_seal_record; `seed` is what `midge_seed` returns. */
__attribute__((target("pclmul,sse4.1"))) static void midge_seal_record_folded(
    unsigned char *record, uint32_t seed) {
    uint32_t length = midge_u32(record + 8) - MIDGE_HEAD;
    uint32_t body = length >= 4 ? ~midge_crc_behind(~seed, record + MIDGE_HEAD, length)
                                : ~midge_crc_tables(~seed, record + MIDGE_HEAD, length);
    midge_set_u32(record + 4, body);
    __m128i a = _mm_insert_epi32(midge_16(record), 0, 0);
    a = _mm_insert_epi32(a, (int)(body ^ ~seed), 1);
    midge_set_u32(record, ~midge_crc_fold_16(MIDGE_FOLD(a, MIDGE_BY_16, midge_16(record + 16)),
                                             record + 32, 16));
}
#endif

static pthread_once_t midge_crc_once = PTHREAD_ONCE_INIT;

static void midge_crc_setup(void) {
    midge_crc_prepare();
#if defined(__x86_64__)
    __builtin_cpu_init();
    midge_has_clmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif
}

static inline uint32_t midge_crc(const unsigned char *data, size_t length, uint32_t seed) {
    uint32_t crc = ~seed;
#if defined(__x86_64__)
    if (length >= 64 && midge_has_clmul) {
        size_t whole = length & ~(size_t)15;
        crc = midge_crc_folded(crc, data, whole);
        data += whole;
        length -= whole;
    }
#endif
    return ~midge_crc_tables(crc, data, length);
}

/* The checksum of a segment's number, with which all seeds of its records begin. */
static inline uint32_t midge_segment_crc(uint32_t store_seed, uint64_t segment) {
    return midge_crc_by_tables(midge_crc_table, ~store_seed, (const unsigned char *)&segment, 8);
}

/* What the checksums of the record at a position begin with. */
static inline uint32_t midge_seed_at(uint32_t segment_crc, uint64_t position) {
    return ~midge_crc_by_tables(midge_crc_table, segment_crc, (const unsigned char *)&position, 8);
}

static inline uint32_t midge_seed(uint32_t store_seed, uint64_t segment, uint64_t position) {
    return midge_seed_at(midge_segment_crc(store_seed, segment), position);
}

static inline uint32_t midge_padded(uint32_t length) { return (length + 7) & ~7u; }

static void midge_seal_record(unsigned char *record, uint32_t seed) {
#if defined(__x86_64__)
    if (midge_has_clmul) {
        midge_seal_record_folded(record, seed);
        return;
    }
#endif
    uint32_t length = midge_u32(record + 8);
    midge_set_u32(record + 4, midge_crc(record + MIDGE_HEAD, length - MIDGE_HEAD, seed));
    midge_set_u32(record, midge_crc(record + 4, MIDGE_HEAD - 4, seed));
}

/* A group that is being sealed: `at` is its first record that is not, `chain` the checksum over the
 * checksums so far. */
typedef struct {
    unsigned char *data;
    long long used, at;
    uint32_t segment_crc, chain;
    uint64_t position;
} midge_sealing;

static midge_sealing midge_begin_sealing(unsigned char *data, long long used, uint32_t store_seed,
                                         uint64_t segment, uint64_t position) {
    uint32_t segment_crc = midge_segment_crc(store_seed, segment);
    midge_sealing group = {data, used, midge_padded(midge_u32(data + 8)), segment_crc,
                           midge_seed_at(segment_crc, position), position};
    return group;
}

/* Seal the records that begin before `stop`. */
static void midge_seal_records(midge_sealing *group, long long stop) {
    uint32_t sums[256];
    size_t count = 0;
    while (group->at < stop) {
        unsigned char *record = group->data + group->at;
        midge_seal_record(record, midge_seed_at(group->segment_crc, group->position + group->at));
        sums[count++] = midge_u32(record);
        if (count == sizeof(sums) / 4) {
            group->chain = midge_crc((unsigned char *)sums, sizeof(sums), group->chain);
            count = 0;
        }
        group->at += midge_padded(midge_u32(record + 8));
    }
    group->chain = midge_crc((unsigned char *)sums, count * 4, group->chain);
}

/* Seal the head, which says what the checksums of the records are. */
static void midge_end_sealing(midge_sealing *group) {
    midge_set_u32(group->data + MIDGE_GROUP_CHAIN, group->chain);
    midge_seal_record(group->data, midge_seed_at(group->segment_crc, group->position));
}

static void midge_seal_group(unsigned char *data, long long used, uint32_t store_seed,
                             uint64_t segment, uint64_t position) {
    midge_sealing group = midge_begin_sealing(data, used, store_seed, segment, position);
    midge_seal_records(&group, used);
    midge_end_sealing(&group);
}

static int midge_has_head(const unsigned char *record, long long available, uint32_t seed) {
    return available >= MIDGE_HEAD &&
           midge_u32(record) == midge_crc(record + 4, MIDGE_HEAD - 4, seed) &&
           midge_u32(record + 8) >= MIDGE_HEAD;
}

/* Return 1 for the head of a record, 0 for none. */
static int midge_check_head(const unsigned char *record, long long available,
                            uint32_t store_seed, uint64_t segment, uint64_t position) {
    return midge_has_head(record, available, midge_seed(store_seed, segment, position));
}

/* Return 2 for a whole record, 1 for one of which only the head is, 0 for none. */
static int midge_check_record(const unsigned char *record, long long available,
                              uint32_t store_seed, uint64_t segment, uint64_t position) {
    uint32_t seed = midge_seed(store_seed, segment, position);
    if (!midge_has_head(record, available, seed)) return 0;
    uint32_t length = midge_u32(record + 8);
    if (length > available) return 1;
    uint32_t body = midge_crc(record + MIDGE_HEAD, length - MIDGE_HEAD, seed);
    return midge_u32(record + 4) == body ? 2 : 1;
}

#endif
