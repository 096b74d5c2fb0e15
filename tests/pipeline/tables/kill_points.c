/* Kills its process before the n-th change of a file, or plays a full disk or a clock that is off:
 * preloaded.
 *
 * kill_points(n, part) counts the changes from the first one on whose path has `part` in it, at once
 * when it is empty: files opened for writing, written, linked, renamed and deleted, and directories
 * made. n = 0 ends the count. full_disk(n) lets n writes to files pass and refuses all others, until
 * full_disk(-1). The variables FULL_DISK=n and CLOCK_OFF_S=seconds do it from the start.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static atomic_long left, counted;
static atomic_long room = -1; /* writes before the disk is full; -1: it never is */
static char awaited[64];
static long clock_off_s;

__attribute__((constructor)) static void from_environment(void) {
    const char *off = getenv("CLOCK_OFF_S");
    if (off) clock_off_s = atol(off);
    const char *writes = getenv("FULL_DISK");
    if (writes) atomic_store(&room, atol(writes));
}

void kill_points(long n, const char *part) {
    atomic_store(&left, 0);
    strncpy(awaited, part, sizeof awaited - 1);
    atomic_store(&counted, 0);
    atomic_store(&left, n);
}

long changes(void) { return atomic_load(&counted); }

void full_disk(long writes) { atomic_store(&room, writes); }

static void change(const char *path) {
    if (atomic_load(&left) <= 0) return;
    if (awaited[0]) {
        if (path == NULL || strstr(path, awaited) == NULL) return;
        awaited[0] = 0;
    }
    atomic_fetch_add(&counted, 1);
    if (atomic_fetch_sub(&left, 1) == 1) kill(getpid(), SIGKILL);
}

static int is_file(int file) {
    struct stat state;
    return fstat(file, &state) == 0 && S_ISREG(state.st_mode);
}

static int refuses(int file) {
    if (!is_file(file)) return 0;
    change(NULL);
    long before = atomic_load(&room);
    while (before > 0 && !atomic_compare_exchange_weak(&room, &before, before - 1)) continue;
    if (before != 0) return 0;
    errno = ENOSPC;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int clock_gettime(clockid_t id, struct timespec *now) {
    static __typeof__(&clock_gettime) real;
    if (!real) real = REAL(clock_gettime);
    int code = real(id, now);
    if (code == 0 && id == CLOCK_REALTIME) now->tv_sec += clock_off_s;
    return code;
}

ssize_t write(int file, const void *data, size_t length) {
    static __typeof__(&write) real;
    if (!real) real = REAL(write);
    return refuses(file) ? -1 : real(file, data, length);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    static __typeof__(&writev) real;
    if (!real) real = REAL(writev);
    return refuses(file) ? -1 : real(file, parts, count);
}

ssize_t pwrite64(int file, const void *data, size_t length, off64_t position) {
    static __typeof__(&pwrite64) real;
    if (!real) real = REAL(pwrite64);
    return refuses(file) ? -1 : real(file, data, length, position);
}

int open64(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    if (!real) real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
    if (flags & (O_WRONLY | O_RDWR)) change(path);
    return real(path, flags, mode);
}

#define CHANGE_OF_PATH(name, arguments, passed, path)      \
    int name arguments {                                   \
        static __typeof__(&name) real;                     \
        if (!real) real = REAL(name);                      \
        change(path);                                      \
        return real passed;                                \
    }

CHANGE_OF_PATH(link, (const char *from, const char *to), (from, to), to)
CHANGE_OF_PATH(linkat, (int f, const char *from, int t, const char *to, int flags),
               (f, from, t, to, flags), to)
CHANGE_OF_PATH(rename, (const char *from, const char *to), (from, to), to)
CHANGE_OF_PATH(unlink, (const char *path), (path), path)
CHANGE_OF_PATH(unlinkat, (int at, const char *path, int flags), (at, path, flags), path)
CHANGE_OF_PATH(mkdir, (const char *path, mode_t mode), (path, mode), path)
