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
#include <sys/uio.h>
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

enum {
    MIDGE_PAGE = 4096,
    MIDGE_PIECE = 256 * 1024, /* of a group, to be sealed and written */
    MIDGE_FLOOD = 1024 * 1024, /* a group of which less need not leave the page cache */
    MIDGE_ZEROS = 64 * 1024,   /* written at once */
};

/* Writing without leaving pages behind: since Linux 6.14. Not every C library has the call. */
#if defined(__linux__) && defined(__GLIBC__)
#define MIDGE_CAN_PASS 1
#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80
#endif
#endif

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
    uint32_t store_seed, chain;
    uint64_t segment, position;
} midge_sealing;

static midge_sealing midge_begin_sealing(unsigned char *data, long long used, uint32_t store_seed,
                                         uint64_t segment, uint64_t position) {
    midge_sealing group = {data, used, midge_padded(midge_u32(data + 8)), store_seed,
                           midge_seed(store_seed, segment, position), segment, position};
    return group;
}

/* Seal the records that begin before `stop`. */
static void midge_seal_records(midge_sealing *group, long long stop) {
    uint32_t sums[256];
    size_t count = 0;
    while (group->at < stop) {
        unsigned char *record = group->data + group->at;
        uint64_t position = group->position + group->at;
        midge_seal_record(record, group->store_seed, group->segment, position);
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
    midge_seal_record(group->data, group->store_seed, group->segment, group->position);
}

static void midge_seal_group(unsigned char *data, long long used, uint32_t store_seed,
                             uint64_t segment, uint64_t position) {
    midge_sealing group = midge_begin_sealing(data, used, store_seed, segment, position);
    midge_seal_records(&group, used);
    midge_end_sealing(&group);
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
    int file, directory, seal, sync, passing;
    int cannot_pass; /* the kernel or the file system does not know what is asked for */
    unsigned char *data;
    long long used, position, extend; /* extend: how long to make the file; 0: as it is */
    int zeroed;                       /* what is new of it is written with zeros */
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

/* Write zeros from `start` to `end`; return 0 or errno. */
static int midge_write_zeros(int file, long long start, long long end) {
    static const unsigned char zeros[MIDGE_ZEROS];
    while (start < end) {
        size_t size = end - start < MIDGE_ZEROS ? (size_t)(end - start) : MIDGE_ZEROS;
        ssize_t wrote = pwrite(file, zeros, size, start);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return wrote < 0 ? errno : ENOSPC;
        start += wrote;
    }
    return 0;
}

/* Make a file longer, with room on the disk; return 0 or errno. With `zeroed` the new part is
 * written, too: of a part that only has room the file system notes at a sync what has been written. */
static int midge_extend(int file, long long size, int zeroed) {
    struct stat before;
    if (fstat(file, &before) != 0) return errno;
    if (before.st_size >= size) return 0;
#if defined(__APPLE__)
    int error = ftruncate(file, size) != 0 ? errno : 0;
#else
    int error = posix_fallocate(file, before.st_size, size - before.st_size);
#endif
    if (error != 0 || !zeroed) return error;
    return midge_write_zeros(file, before.st_size, size);
}

static int midge_is_passing(const midge_writer *writer) {
#if defined(MIDGE_CAN_PASS)
    return writer->passing && writer->used >= MIDGE_FLOOD && !writer->cannot_pass;
#else
    (void)writer;
    return 0;
#endif
}

/* Write as pwrite does. Of a large group that is not expected to be read soon the system begins to
 * write the pages at once, and uses them again then: with fresh ones, which other memory had to make
 * room for, a byte took 1.4 ns instead of 0.2. */
static ssize_t midge_write_some(midge_writer *writer, long long start, long long end) {
    unsigned char *data = writer->data + start;
    off_t position = writer->position + start;
#if defined(MIDGE_CAN_PASS)
    if (midge_is_passing(writer)) {
        struct iovec part = {data, (size_t)(end - start)};
        ssize_t wrote = pwritev2(writer->file, &part, 1, position, RWF_DONTCACHE);
        if (wrote >= 0 || (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS)) return wrote;
        writer->cannot_pass = 1;
    }
#endif
    return pwrite(writer->file, data, end - start, position);
}

/* Write the bytes from `start` to `end`; return 0, or -1 with the result set. */
static int midge_write_bytes(midge_writer *writer, long long start, long long end) {
    while (start < end) {
        ssize_t wrote = midge_write_some(writer, start, end);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) {
            writer->stage = 1;
            writer->error = wrote < 0 ? errno : ENOSPC;
            return -1;
        }
        start += wrote;
    }
    return 0;
}

/* Have the disk begin with what has been written, unless it has: the sync tells whether it could. */
static void midge_begin_sync(midge_writer *writer, long long start, long long end) {
#if defined(__linux__)
    if (writer->sync && !midge_is_passing(writer))
        sync_file_range(writer->file, writer->position + start, end - start,
                        SYNC_FILE_RANGE_WRITE);
#else
    (void)writer, (void)start, (void)end;
#endif
}

/* Seal a group and write it, a large one in pieces of whole pages, so that the disk writes the
 * first ones while the others are sealed. The head comes last, with the rest of its page. */
static int midge_write_sealed(midge_writer *writer) {
    midge_sealing group = midge_begin_sealing(writer->data, writer->used, writer->store_seed,
                                              writer->segment, writer->position);
    long long first = 0;
    if (writer->used >= 2 * MIDGE_PIECE) {
        first = MIDGE_PAGE - writer->position % MIDGE_PAGE;
        if (first < group.at) first += MIDGE_PAGE; /* the head goes on in the second page */
        long long start = first;
        while (start < writer->used) {
            long long end = start + MIDGE_PIECE;
            if (end > writer->used) end = writer->used;
            midge_seal_records(&group, end);
            if (midge_write_bytes(writer, start, end) != 0) return -1;
            midge_begin_sync(writer, start, end);
            start = end;
        }
    }
    midge_seal_records(&group, writer->used);
    midge_end_sealing(&group);
    return midge_write_bytes(writer, 0, first > 0 ? first : writer->used);
}

static void midge_write_parts(midge_writer *writer) {
    if (writer->extend > 0) {
        writer->error = midge_extend(writer->file, writer->extend, writer->zeroed);
        if (writer->error != 0) {
            writer->stage = 1;
            return;
        }
    }
    if ((writer->seal ? midge_write_sealed(writer) : midge_write_bytes(writer, 0, writer->used)) != 0)
        return;
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
