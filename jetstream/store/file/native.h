/* What the file store does without Python: checksums, and the thread that writes and syncs.
 *
 * native.py has the contracts and is the interpreted twin; both give the same bytes.
 */
#ifndef MIDGE_STORE_NATIVE_H
#define MIDGE_STORE_NATIVE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* CRC-32 as zlib has it, eight bytes a step by eight tables ("slicing by eight"). */
static uint32_t midge_crc_table[8][256];

static void midge_crc_prepare(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0xEDB88320u & (0u - (crc & 1)));
        midge_crc_table[0][i] = crc;
    }
    for (int slice = 1; slice < 8; slice++)
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t before = midge_crc_table[slice - 1][i];
            midge_crc_table[slice][i] = before >> 8 ^ midge_crc_table[0][before & 255];
        }
}

static uint32_t midge_crc_tables(uint32_t crc, const unsigned char *data, size_t length) {
    while (length >= 8) {
        uint32_t low = midge_u32(data) ^ crc, high = midge_u32(data + 4);
        crc = midge_crc_table[7][low & 255] ^ midge_crc_table[6][low >> 8 & 255] ^
              midge_crc_table[5][low >> 16 & 255] ^ midge_crc_table[4][low >> 24] ^
              midge_crc_table[3][high & 255] ^ midge_crc_table[2][high >> 8 & 255] ^
              midge_crc_table[1][high >> 16 & 255] ^ midge_crc_table[0][high >> 24];
        data += 8;
        length -= 8;
    }
    while (length--) crc = crc >> 8 ^ midge_crc_table[0][(crc ^ *data++) & 255];
    return crc;
}

#if defined(__x86_64__)
#include <immintrin.h>

static int midge_has_clmul;

/* Fold 64 bytes a step with carry-less multiplications, as Intel's paper on fast CRC computation
 * describes it; the constants are x^n modulo the reflected polynomial. `length` is a multiple of
 * 16 and at least 64. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t midge_crc_folded(
    uint32_t crc, const unsigned char *data, size_t length) {
    const __m128i by_64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
    const __m128i by_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i low_32 = _mm_set_epi64x(0, 0xFFFFFFFF);
    __m128i a = _mm_loadu_si128((const __m128i *)data);
    __m128i b = _mm_loadu_si128((const __m128i *)(data + 16));
    __m128i c = _mm_loadu_si128((const __m128i *)(data + 32));
    __m128i d = _mm_loadu_si128((const __m128i *)(data + 48));
    a = _mm_xor_si128(a, _mm_cvtsi32_si128((int)crc));
    data += 64;
    length -= 64;
#define MIDGE_FOLD(value, constants, next)                                           \
    _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(value, constants, 0x00),        \
                                _mm_clmulepi64_si128(value, constants, 0x11)),       \
                  next)
    while (length >= 64) {
        a = MIDGE_FOLD(a, by_64, _mm_loadu_si128((const __m128i *)data));
        b = MIDGE_FOLD(b, by_64, _mm_loadu_si128((const __m128i *)(data + 16)));
        c = MIDGE_FOLD(c, by_64, _mm_loadu_si128((const __m128i *)(data + 32)));
        d = MIDGE_FOLD(d, by_64, _mm_loadu_si128((const __m128i *)(data + 48)));
        data += 64;
        length -= 64;
    }
    a = MIDGE_FOLD(a, by_16, b);
    a = MIDGE_FOLD(a, by_16, c);
    a = MIDGE_FOLD(a, by_16, d);
    while (length >= 16) {
        a = MIDGE_FOLD(a, by_16, _mm_loadu_si128((const __m128i *)data));
        data += 16;
        length -= 16;
    }
#undef MIDGE_FOLD
    /* 128 bits to 64, 64 to 32 (Barrett). */
    b = _mm_clmulepi64_si128(a, by_16, 0x10);
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

/* What the checksums of the record at a place begin with. */
static inline uint32_t midge_seed(uint32_t store_seed, uint64_t segment, uint64_t position) {
    unsigned char place[16];
    memcpy(place, &segment, 8);
    memcpy(place + 8, &position, 8);
    return ~midge_crc_tables(~store_seed, place, 16);
}

static inline uint32_t midge_padded(uint32_t length) { return (length + 7) & ~7u; }

static void midge_seal_record(
    unsigned char *record, uint32_t store_seed, uint64_t segment, uint64_t position) {
    uint32_t seed = midge_seed(store_seed, segment, position);
    uint32_t length = midge_u32(record + 8);
    midge_set_u32(record + 4, midge_crc(record + MIDGE_HEAD, length - MIDGE_HEAD, seed));
    midge_set_u32(record, midge_crc(record + 4, MIDGE_HEAD - 4, seed));
}

static void midge_seal_group(unsigned char *data, long long used, uint32_t store_seed,
                             uint64_t segment, uint64_t position) {
    uint32_t chain = midge_seed(store_seed, segment, position);
    long long at = midge_padded(midge_u32(data + 8));
    while (at < used) {
        midge_seal_record(data + at, store_seed, segment, position + at);
        chain = ~midge_crc_tables(~chain, data + at, 4);
        at += midge_padded(midge_u32(data + at + 8));
    }
    midge_set_u32(data + MIDGE_GROUP_CHAIN, chain);
    midge_seal_record(data, store_seed, segment, position);
}

/* Return 1 for the head of a record, 0 for none. */
static int midge_check_head(const unsigned char *record, long long available,
                            uint32_t store_seed, uint64_t segment, uint64_t position) {
    if (available < MIDGE_HEAD) return 0;
    uint32_t seed = midge_seed(store_seed, segment, position);
    return midge_u32(record) == midge_crc(record + 4, MIDGE_HEAD - 4, seed) &&
           midge_u32(record + 8) >= MIDGE_HEAD;
}

/* Return 2 for a whole record, 1 for one of which only the head is, 0 for none. */
static int midge_check_record(const unsigned char *record, long long available,
                              uint32_t store_seed, uint64_t segment, uint64_t position) {
    if (!midge_check_head(record, available, store_seed, segment, position)) return 0;
    uint32_t seed = midge_seed(store_seed, segment, position);
    uint32_t length = midge_u32(record + 8);
    if (length > available) return 1;
    uint32_t body = midge_crc(record + MIDGE_HEAD, length - MIDGE_HEAD, seed);
    return midge_u32(record + 4) == body ? 2 : 1;
}

/* The thread that writes: one job at a time, so that the next group takes in what comes meanwhile. */
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    pthread_t thread;
    int state; /* 0 idle, 1 job waiting or under way, 2 stop */
    int wake_fd;
    int file, directory, seal, sync;
    unsigned char *data;
    long long used, position, extend; /* extend: how long to make the file; 0: as it is */
    int closing;                      /* a file to close in the end; -1: none */
    uint32_t store_seed;
    uint64_t segment;
    int stage, error; /* the result: 0 done, 1 the write failed, 2 the sync failed; errno */
} midge_writer;

static int midge_sync(int file) {
#if defined(__APPLE__)
    return fcntl(file, F_FULLFSYNC);
#elif defined(__linux__)
    return fdatasync(file);
#else
    return fsync(file);
#endif
}

/* Make a file longer, with room on the disk; return 0 or errno. */
static int midge_extend(int file, long long size) {
    struct stat before;
    if (fstat(file, &before) != 0) return errno;
    if (before.st_size >= size) return 0;
#if defined(__APPLE__)
    return ftruncate(file, size) != 0 ? errno : 0;
#else
    return posix_fallocate(file, before.st_size, size - before.st_size);
#endif
}

static void midge_write_parts(midge_writer *writer) {
    long long done = 0;
    if (writer->extend > 0 && (writer->error = midge_extend(writer->file, writer->extend)) != 0) {
        writer->stage = 1;
        return;
    }
    if (writer->seal)
        midge_seal_group(writer->data, writer->used, writer->store_seed, writer->segment,
                         writer->position);
    while (done < writer->used) {
        ssize_t wrote = pwrite(writer->file, writer->data + done, writer->used - done,
                               writer->position + done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) {
            writer->stage = 1;
            writer->error = wrote < 0 ? errno : ENOSPC;
            return;
        }
        done += wrote;
    }
    if (!writer->sync) return;
    if (midge_sync(writer->file) != 0 ||
        (writer->directory >= 0 && fsync(writer->directory) != 0)) {
        writer->stage = 2;
        writer->error = errno;
    }
}

static void midge_write_job(midge_writer *writer) {
    writer->stage = 0;
    writer->error = 0;
    midge_write_parts(writer);
    if (writer->closing >= 0) close(writer->closing);
}

static void *midge_writer_main(void *argument) {
    midge_writer *writer = (midge_writer *)argument;
    pthread_mutex_lock(&writer->mutex);
    for (;;) {
        while (writer->state == 0) pthread_cond_wait(&writer->wake, &writer->mutex);
        if (writer->state == 2) break;
        pthread_mutex_unlock(&writer->mutex);
        midge_write_job(writer);
        uint64_t one = 1; /* an eventfd takes eight bytes; of a pipe any number will do */
        pthread_mutex_lock(&writer->mutex);
        while (write(writer->wake_fd, &one, 8) < 0 && errno == EINTR) {
        }
        if (writer->state == 1) writer->state = 0;
        pthread_cond_signal(&writer->wake);
    }
    pthread_mutex_unlock(&writer->mutex);
    return NULL;
}

static midge_writer *midge_writer_start(int wake_fd) {
    midge_writer *writer = (midge_writer *)calloc(1, sizeof(midge_writer));
    if (writer == NULL) return NULL;
    pthread_once(&midge_crc_once, midge_crc_setup);
    pthread_mutex_init(&writer->mutex, NULL);
    pthread_cond_init(&writer->wake, NULL);
    writer->wake_fd = wake_fd;
    if (pthread_create(&writer->thread, NULL, midge_writer_main, writer) != 0) {
        free(writer);
        return NULL;
    }
    return writer;
}

/* Signalled once the mutex is free: a thread that woke to find it taken would sleep again at once,
 * which took five futex calls for each group, and not two. Only one thread waits at a time. */
static void midge_writer_set_state(midge_writer *writer, int state) {
    pthread_mutex_lock(&writer->mutex);
    writer->state = state;
    pthread_mutex_unlock(&writer->mutex);
    pthread_cond_signal(&writer->wake);
}

static void midge_writer_submit(midge_writer *writer) { midge_writer_set_state(writer, 1); }

/* Wait until no job is under way. */
static void midge_writer_settle(midge_writer *writer) {
    pthread_mutex_lock(&writer->mutex);
    while (writer->state == 1) pthread_cond_wait(&writer->wake, &writer->mutex);
    pthread_mutex_unlock(&writer->mutex);
}

static void midge_writer_stop(midge_writer *writer) {
    midge_writer_settle(writer);
    midge_writer_set_state(writer, 2);
    pthread_join(writer->thread, NULL);
    pthread_mutex_destroy(&writer->mutex);
    pthread_cond_destroy(&writer->wake);
    free(writer);
}

#endif
