/* One processor for the event loop and the thread that writes, while the loop waits for the thread.
 *
 * A thread is best woken on the processor of who wakes it, if that goes to sleep at once. The kernel
 * prefers one that sleeps: to wake that is a call of the host on a virtual machine, 25 us of CPU
 * time, and the thread runs 80 us later; on the same one it is 1 us. So the thread is kept where the
 * loop is, and has the loop woken there, once the loop has been seen to sleep while groups are
 * written. A loop that has work meanwhile shares nothing, nor do they share where others use the
 * processor, too.
 *
 * Which processors a program's threads use is the program's to say, so only a process that is nothing
 * but a server may share.
 */
#ifndef MIDGE_STORE_SHARING_H
#define MIDGE_STORE_SHARING_H

#include <pthread.h>
#include <stdint.h>

static int midge_sharing_is_allowed;

static void midge_sharing_allow(int is_allowed) { midge_sharing_is_allowed = is_allowed; }

#if defined(__linux__) && defined(__GLIBC__)
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    MIDGE_BUSY_NS = 50 * 1000,  /* CPU time of a loop that does not just wait for a group */
    MIDGE_LATE_NS = 100 * 1000, /* a thread that runs so much later had to wait for another one */
    MIDGE_SHARING_FROM = 16,    /* merits: a group each that would have been, or was, well shared */
    MIDGE_MERITS_MAX = 64,
    MIDGE_MERITS_LOST = 16, /* by a group for which sharing was in the way */
    MIDGE_REST_MIN = 64,    /* groups without, where it often was */
    MIDGE_REST_MAX = 4096,
};

/* The thread's from when it is handed a group until it has signalled that it is done with it. */
typedef struct {
    int merits;        /* below 0: groups of rest that are left */
    int rest;          /* groups of the next rest */
    int processor;     /* the one that the thread is kept on; -1: any */
    cpu_set_t allowed; /* what both may use when they do not share */
    pid_t loop;        /* its thread */
    int is_confined;   /* that, to `processor`: set and cleared by the thread */
    int64_t used_ns;   /* CPU time of the loop when the group was handed over */
    int64_t handed_ns, started_ns, done_ns; /* when that was, and what the thread noted */
} midge_sharing;

static int64_t midge_now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void midge_sharing_prepare(midge_sharing *sharing) {
    sharing->processor = -1;
    sharing->rest = MIDGE_REST_MIN;
}

/* Called by the loop when it has a group for `thread`. */
static void midge_sharing_begin(midge_sharing *sharing, pthread_t thread) {
    sharing->loop = (pid_t)syscall(SYS_gettid);
    sharing->used_ns = midge_now_ns(CLOCK_THREAD_CPUTIME_ID);
    sharing->handed_ns = midge_now_ns(CLOCK_MONOTONIC);
    int is_shared = midge_sharing_is_allowed && sharing->merits >= MIDGE_SHARING_FROM;
    int processor = is_shared ? sched_getcpu() : -1;
    if (processor == sharing->processor) return;
    /* Later than that the loop may be kept on one by `midge_sharing_wake`. */
    if (sharing->processor < 0 &&
        sched_getaffinity(0, sizeof sharing->allowed, &sharing->allowed) != 0)
        return;
    cpu_set_t one;
    CPU_ZERO(&one);
    if (processor >= 0) CPU_SET(processor, &one);
    if (pthread_setaffinity_np(thread, sizeof one, processor >= 0 ? &one : &sharing->allowed) == 0)
        sharing->processor = processor;
}

/* Called by the thread when it begins with a group. */
static void midge_sharing_start(midge_sharing *sharing) {
    sharing->started_ns = midge_now_ns(CLOCK_MONOTONIC);
}

/* Called by the thread when it has written: `signal` to the loop, and have it wake up here. That may
 * use all its processors again at once, but is not moved for that. */
static void midge_sharing_wake(midge_sharing *sharing, void (*signal)(int), int descriptor) {
    pid_t loop = sharing->loop;
    cpu_set_t allowed, here;
    int is_shared = sharing->processor >= 0 &&
                    sched_getaffinity(loop, sizeof allowed, &allowed) == 0 &&
                    CPU_ISSET(sharing->processor, &allowed);
    if (is_shared) {
        sharing->allowed = allowed;
        CPU_ZERO(&here);
        CPU_SET(sharing->processor, &here);
        is_shared = sched_setaffinity(loop, sizeof here, &here) == 0;
        __atomic_store_n(&sharing->is_confined, is_shared, __ATOMIC_RELEASE);
    }
    sharing->done_ns = midge_now_ns(CLOCK_MONOTONIC);
    signal(descriptor);
    if (is_shared) {
        sched_setaffinity(loop, sizeof allowed, &allowed);
        __atomic_store_n(&sharing->is_confined, 0, __ATOMIC_RELEASE);
    }
}

/* Called by the loop when it takes what has become of a group. What it starts inherits where it may
 * run, so it frees itself if it has woken before the thread came to that. */
static void midge_sharing_end(midge_sharing *sharing) {
    if (__atomic_load_n(&sharing->is_confined, __ATOMIC_ACQUIRE))
        sched_setaffinity(0, sizeof sharing->allowed, &sharing->allowed);
    int64_t used = midge_now_ns(CLOCK_THREAD_CPUTIME_ID) - sharing->used_ns;
    int is_well = used <= MIDGE_BUSY_NS;
    if (sharing->processor < 0) {
        if (!is_well && sharing->merits > 0) sharing->merits = 0;
        if (is_well && sharing->merits < MIDGE_SHARING_FROM) sharing->merits++;
        return;
    }
    is_well = is_well && sharing->started_ns - sharing->handed_ns <= MIDGE_LATE_NS &&
              midge_now_ns(CLOCK_MONOTONIC) - sharing->done_ns <= MIDGE_LATE_NS;
    if (is_well && sharing->merits < MIDGE_MERITS_MAX)
        sharing->merits++;
    else if (is_well)
        sharing->rest = MIDGE_REST_MIN;
    else
        sharing->merits -= MIDGE_MERITS_LOST;
    if (sharing->merits < MIDGE_SHARING_FROM) {
        sharing->merits = -sharing->rest;
        if (sharing->rest < MIDGE_REST_MAX) sharing->rest *= 2;
    }
}

#else

typedef struct {
    int is_shared;
} midge_sharing;

static void midge_sharing_prepare(midge_sharing *sharing) { sharing->is_shared = 0; }

static void midge_sharing_begin(midge_sharing *sharing, pthread_t thread) {
    (void)sharing, (void)thread;
}

static void midge_sharing_start(midge_sharing *sharing) { (void)sharing; }

static void midge_sharing_wake(midge_sharing *sharing, void (*signal)(int), int descriptor) {
    (void)sharing;
    signal(descriptor);
}

static void midge_sharing_end(midge_sharing *sharing) { (void)sharing; }

#endif
#endif
