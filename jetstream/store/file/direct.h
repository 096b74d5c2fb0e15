/* Messages one at a time on their way to the disk without the page cache, and without the thread.
 *
 * A group of one message took the two threads 62 us: two were woken for it, and one of them twice
 * more, by the disk. Asked for by io_submit, write and flush are the kernel's work alone, and the
 * loop is told by the descriptor that the thread tells it by: 42 us. Whole pages are written, from
 * memory that begins where a page does; the last one is written again with the next group. Nothing
 * here waits: where the kernel would have to (RWF_NOWAIT), it says so, and the thread writes the
 * pages.
 *
 * The flush is asked for by a kernel thread that is bound to a processor. Where other programs keep
 * that busy, it gets its turn with the next tick: a write took 3.9 ms instead of 0.13, where the
 * writing thread moved to a free processor and took 0.1 to 0.9. So after a few slow ones the thread
 * writes all pages for a while.
 */
#ifndef MIDGE_STORE_DIRECT_H
#define MIDGE_STORE_DIRECT_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    MIDGE_PAGE = 4096,
    MIDGE_DIRECT_MAX = 16 * 1024,           /* of a lone group, as in log.py */
    MIDGE_DIRECT_SLOW_NS = 1000 * 1000,     /* a write that takes longer is slow */
    MIDGE_DIRECT_SLOW_COST = 8,             /* what it counts, where a quick one takes off 1 ... */
    MIDGE_DIRECT_SLOW_MAX = 16,             /* ... above which the thread writes */
    MIDGE_DIRECT_REST_MAX_S = 32,           /* for 1 s, then 2, and so on up to this */
};

/* What is being written, and what of the file's last page the next group is to be put behind. */
typedef struct {
    unsigned long context; /* of the kernel's requests; 0: there is none, and all goes by the thread */
    int file;              /* opened with O_DIRECT; -1: none */
    int is_refused;        /* the system cannot write this way: all goes by the thread */
    int error;             /* after a failure: errno */
    unsigned char *pages;
    long long start, end; /* where the pages begin in the file, and where the last group ends */
    long long length;     /* of what is being written, in whole pages */
    int slow, rest_s;
    int64_t asked_ns, rests_until; /* of the monotonic clock */
} midge_direct;

#if defined(__linux__) && defined(__GLIBC__)
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x8
#endif
#ifndef RWF_DSYNC
#define RWF_DSYNC 0x2
#endif

static int64_t midge_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void midge_direct_open(midge_direct *direct) {
    aio_context_t context = 0;
    direct->file = -1;
    if (posix_memalign((void **)&direct->pages, MIDGE_PAGE,
                       MIDGE_DIRECT_MAX + 2 * MIDGE_PAGE) != 0) {
        direct->pages = NULL;
        return;
    }
    if (syscall(SYS_io_setup, 1, &context) == 0) direct->context = context;
}

static void midge_direct_close(midge_direct *direct) {
    if (direct->context != 0) syscall(SYS_io_destroy, (aio_context_t)direct->context);
    if (direct->file >= 0) close(direct->file);
    free(direct->pages);
}

/* Write to another file from now on, -1: to none; the one before is closed. Only of these file
 * systems it is known that they do not wait in io_submit, and need no room to overwrite. */
static void midge_direct_use(midge_direct *direct, int file) {
    enum { EXT4 = 0xEF53, XFS = 0x58465342 };
    struct statfs state;
    if (direct->file >= 0) close(direct->file);
    if (file >= 0 && (fstatfs(file, &state) != 0 || (state.f_type != EXT4 && state.f_type != XFS))) {
        close(file);
        file = -1;
    }
    direct->file = file;
    direct->end = -1;
}

/* Have the pages begin with what stands before `position` in its page; return 0 if that would
 * have to be waited for. `file` is the same one, opened without O_DIRECT. */
static int midge_direct_turn_to(midge_direct *direct, int file, long long position) {
    long long start = position - position % MIDGE_PAGE;
    if (position == direct->end) {
        memmove(direct->pages, direct->pages + (start - direct->start), position - start);
    } else if (position > start) {
        struct iovec before = {direct->pages, (size_t)(position - start)};
        if (preadv2(file, &before, 1, start, RWF_NOWAIT) != (ssize_t)before.iov_len) return 0;
    }
    direct->start = start;
    return 1;
}

/* Have the pages ready for `used` bytes at `position`; return 0 if they cannot be written. */
static int midge_direct_prepare(midge_direct *direct, int file, const unsigned char *data,
                                long long used, long long position) {
    if (direct->pages == NULL || direct->file < 0 || direct->is_refused ||
        used > MIDGE_DIRECT_MAX || !midge_direct_turn_to(direct, file, position)) {
        direct->end = -1; /* what is written now is not in the pages */
        return 0;
    }
    long long lead = position - direct->start;
    long long length = (lead + used + MIDGE_PAGE - 1) / MIDGE_PAGE * MIDGE_PAGE;
    memcpy(direct->pages + lead, data, used);
    memset(direct->pages + lead + used, 0, length - lead - used);
    direct->end = position + used;
    direct->length = length;
    return 1;
}

/* Ask for the pages to be written, and for `signal` to be told of it, an eventfd; return 0 if the
 * thread is to write them. */
static int midge_direct_ask(midge_direct *direct, int signal) {
    struct iocb job, *jobs[1] = {&job};
    direct->asked_ns = midge_now_ns();
    if (direct->context == 0 || direct->asked_ns < direct->rests_until) return 0;
    memset(&job, 0, sizeof job);
    job.aio_fildes = direct->file;
    job.aio_lio_opcode = IOCB_CMD_PWRITE;
    job.aio_rw_flags = RWF_DSYNC | RWF_NOWAIT;
    job.aio_buf = (uintptr_t)direct->pages;
    job.aio_nbytes = direct->length;
    job.aio_offset = direct->start;
    job.aio_flags = IOCB_FLAG_RESFD;
    job.aio_resfd = signal;
    return syscall(SYS_io_submit, (aio_context_t)direct->context, 1, jobs) == 1;
}

/* Count how long a write took, and rest if too many are slow: longer each time. */
static void midge_direct_note_time(midge_direct *direct) {
    int64_t now = midge_now_ns();
    if (now - direct->asked_ns <= MIDGE_DIRECT_SLOW_NS) {
        if (direct->slow > 0) direct->slow--;
        else direct->rest_s = 0;
        return;
    }
    direct->slow += MIDGE_DIRECT_SLOW_COST;
    if (direct->slow <= MIDGE_DIRECT_SLOW_MAX) return;
    direct->slow = MIDGE_DIRECT_SLOW_MAX;
    direct->rest_s = direct->rest_s == 0 ? 1 : direct->rest_s * 2;
    if (direct->rest_s > MIDGE_DIRECT_REST_MAX_S) direct->rest_s = MIDGE_DIRECT_REST_MAX_S;
    direct->rests_until = now + direct->rest_s * 1000000000LL;
}

/* Take the result once `signal` was told of it: 1: written and on the disk; 0: the pages are still
 * to be written, by the thread; -1: it failed, with `error` set. */
static int midge_direct_take(midge_direct *direct) {
    struct io_event event;
    midge_direct_note_time(direct);
    if (syscall(SYS_io_getevents, (aio_context_t)direct->context, 1, 1, &event, NULL) != 1) {
        direct->error = EIO;
        return -1;
    }
    if (event.res == direct->length) return 1;
    direct->is_refused = event.res == -EINVAL || event.res == -EOPNOTSUPP;
    if (event.res >= 0 || event.res == -EAGAIN || direct->is_refused) return 0;
    direct->error = (int)-event.res;
    return -1;
}

#else /* there is nothing of the kind */

static void midge_direct_open(midge_direct *direct) { direct->file = -1; }

static void midge_direct_close(midge_direct *direct) { (void)direct; }

static void midge_direct_use(midge_direct *direct, int file) {
    (void)direct;
    if (file >= 0) close(file);
}

static int midge_direct_prepare(midge_direct *direct, int file, const unsigned char *data,
                                long long used, long long position) {
    (void)direct, (void)file, (void)data, (void)used, (void)position;
    return 0;
}

static int midge_direct_ask(midge_direct *direct, int signal) {
    (void)direct, (void)signal;
    return 0;
}

static int midge_direct_take(midge_direct *direct) {
    (void)direct;
    return 0;
}
#endif
#endif
