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

#include "checksums.h"
#include "direct.h"

enum {
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
    int is_direct; /* the kernel has the job, and the thread has none */
    midge_direct direct;
    int file, directory, seal, sync, passing;
    int cannot_pass; /* the kernel or the file system does not know what is asked for */
    unsigned char *data;
    long long used, position, extend; /* extend: how long to make the file; 0: as it is */
    int zeroed;                       /* what is new of it is written with zeros */
    long long warm_start, warm_end;   /* what of the file is to be read into the page cache */
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

/* Have synced zeros leave the page cache, as the kernel alone overwrites only what is not in it; and
 * have what was written past it read into it. */
static void midge_arrange_cache(const midge_writer *writer) {
#if defined(__linux__)
    if (writer->zeroed && writer->sync)
        posix_fadvise(writer->file, writer->position, 0, POSIX_FADV_DONTNEED);
    if (writer->warm_end > writer->warm_start)
        posix_fadvise(writer->file, writer->warm_start, writer->warm_end - writer->warm_start,
                      POSIX_FADV_WILLNEED);
#else
    (void)writer;
#endif
}

static void midge_write_job(midge_writer *writer) {
    writer->stage = 0;
    writer->error = 0;
    midge_write_parts(writer);
    midge_arrange_cache(writer);
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
    midge_direct_close(&writer->direct);
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
    midge_direct_open(&writer->direct);
    if (midge_writer_open(writer) != 0) {
        midge_direct_close(&writer->direct);
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

/* Have the thread write the pages that the kernel would have had to wait with. */
static void midge_writer_submit_pages(midge_writer *writer) {
    midge_direct *direct = &writer->direct;
    if (!direct->is_refused) writer->file = direct->file;
    writer->directory = -1;
    writer->seal = writer->passing = writer->zeroed = 0;
    writer->sync = 1;
    writer->data = direct->pages;
    writer->used = direct->length;
    writer->position = direct->start;
    writer->extend = writer->warm_start = writer->warm_end = 0;
    midge_writer_submit(writer);
}

/* Seal a small group and have it written past the page cache, by the kernel or else the thread;
 * return 0 if it is to be submitted as any other. */
static int midge_writer_write_direct(midge_writer *writer, int file, unsigned char *data,
                                     long long used, long long position, uint32_t store_seed,
                                     uint64_t segment) {
    midge_direct *direct = &writer->direct;
    midge_seal_group(data, used, store_seed, segment, position);
    if (!midge_direct_prepare(direct, file, data, used, position)) return 0;
    writer->file = file;
    writer->is_direct = midge_direct_ask(direct, writer->done_out);
    if (writer->is_direct) writer->is_busy = 1;
    else midge_writer_submit_pages(writer);
    return 1;
}

/* Take a result; return 0 if there is none yet. */
static int midge_writer_take(midge_writer *writer) {
    if (!writer->is_busy || !midge_take_signal(writer->done_in)) return 0;
    if (writer->is_direct) {
        int result = midge_direct_take(&writer->direct);
        writer->is_direct = 0;
        if (result == 0) {
            midge_writer_submit_pages(writer);
            return 0;
        }
        writer->stage = result < 0 ? 2 : 0;
        writer->error = result < 0 ? writer->direct.error : 0;
    }
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
