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
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/eventfd.h>
#endif

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

/* The thread that writes: one job at a time, so that the next group takes in what comes meanwhile.
 *
 * Jobs and results are passed by descriptors and never by a lock: while other processes used all
 * cores, a thread often lost its core with the lock in its hands, and a synced message waited for
 * that. The fields belong to the thread from the write to `job_out` until `done_in` can be read. */
typedef struct {
    pthread_t thread;
    int job_in, job_out, done_in, done_out;
    int is_busy; /* a result has not been taken; the thread does not look at it */
    int is_last; /* the job is to end */
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

/* Write eight bytes, for an eventfd takes no fewer; of a pipe any number would do. */
static void midge_signal(int descriptor) {
    uint64_t one = 1;
    while (write(descriptor, &one, 8) < 0 && errno == EINTR) {
    }
}

/* Read what `midge_signal` wrote; return 0 if there is nothing yet and the descriptor does not wait. */
static int midge_take_signal(int descriptor) {
    uint64_t value;
    ssize_t got;
    do got = read(descriptor, &value, 8);
    while (got < 0 && errno == EINTR);
    return got > 0;
}

static void *midge_writer_main(void *argument) {
    midge_writer *writer = (midge_writer *)argument;
    while (midge_take_signal(writer->job_in) && !writer->is_last) {
        midge_write_job(writer);
        midge_signal(writer->done_out);
    }
    return NULL;
}

static int midge_writer_open(midge_writer *writer) {
#if defined(__linux__)
    writer->job_in = writer->job_out = eventfd(0, EFD_CLOEXEC);
    return writer->job_in < 0 ? -1 : 0;
#else
    int ends[2];
    if (pipe(ends) != 0) return -1;
    writer->job_in = ends[0];
    writer->job_out = ends[1];
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return 0;
#endif
}

static void midge_writer_free(midge_writer *writer) {
    close(writer->job_in);
    if (writer->job_out != writer->job_in) close(writer->job_out);
    free(writer);
}

static midge_writer *midge_writer_start(int done_in, int done_out) {
    midge_writer *writer = (midge_writer *)calloc(1, sizeof(midge_writer));
    if (writer == NULL) return NULL;
    pthread_once(&midge_crc_once, midge_crc_setup);
    writer->done_in = done_in;
    writer->done_out = done_out;
    if (midge_writer_open(writer) != 0) {
        free(writer);
        return NULL;
    }
    if (pthread_create(&writer->thread, NULL, midge_writer_main, writer) != 0) {
        midge_writer_free(writer);
        return NULL;
    }
    return writer;
}

static void midge_writer_submit(midge_writer *writer) {
    writer->is_busy = 1;
    midge_signal(writer->job_out);
}

/* Take a result; return 0 if there is none yet. */
static int midge_writer_take(midge_writer *writer) {
    if (!writer->is_busy || !midge_take_signal(writer->done_in)) return 0;
    writer->is_busy = 0;
    return 1;
}

/* Wait until no job is under way; a result is not taken by that. */
static void midge_writer_settle(midge_writer *writer) {
    struct pollfd done = {writer->done_in, POLLIN, 0};
    if (!writer->is_busy) return;
    while (poll(&done, 1, -1) < 0 && errno == EINTR) {
    }
}

static void midge_writer_stop(midge_writer *writer) {
    midge_writer_settle(writer);
    writer->is_last = 1;
    midge_signal(writer->job_out);
    pthread_join(writer->thread, NULL);
    midge_writer_free(writer);
}

#endif
