/* Logs what a server does to its files and sockets, in the order in which it does it: preloaded.
 *
 * An entry is a kind, a descriptor, a number and a length, and as many bytes of data:
 *   W  pwrite, after it returned; the number is the position
 *   P  a pwritev2 whose pages need not stay in the page cache, before it is called
 *   B  fdatasync or fsync, before it is called     S  after it returned well
 *   D  a write with its sync asked for by io_submit, followed by W and B; S once its event is taken
 *   O  a file opened; the data is its name, the number 1 if it was emptied or made
 *   C  a file closed    T  truncated, A  extended to the number    N  renamed (data: two names)
 *   U  unlinked
 *   R  read from a socket, after    X  written to a socket, before
 * MIDGE_CALLS names the log. MIDGE_NO_SYNC=1 plants a fault: nothing is synced.
 * A sync takes MIDGE_SYNC_MS longer, and io_submit is not there then.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80
#endif

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int log_file = -2;
static int no_sync, sync_ms;

static void put(const void *data, size_t length) {
    const char *at = data;
    while (length > 0) {
        long done = syscall(SYS_write, log_file, at, length);
        if (done <= 0) abort();
        at += done;
        length -= (size_t)done;
    }
}

static int is_on(void) {
    if (log_file == -2) {
        const char *name = getenv("MIDGE_CALLS");
        const char *fault = getenv("MIDGE_NO_SYNC");
        const char *slow = getenv("MIDGE_SYNC_MS");
        no_sync = fault != NULL && fault[0] == '1';
        sync_ms = slow != NULL ? atoi(slow) : 0;
        log_file = name == NULL ? -1 : (int)syscall(SYS_openat, AT_FDCWD, name,
                                                    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    return log_file >= 0;
}

static void entry(char kind, int file, int64_t number, const struct iovec *parts, int count) {
    struct { int64_t number; int32_t kind, file; int64_t length; } head = {number, kind, file, 0};
    pthread_mutex_lock(&mutex);
    if (is_on()) {
        for (int i = 0; i < count; i++) head.length += (int64_t)parts[i].iov_len;
        put(&head, sizeof head);
        for (int i = 0; i < count; i++) put(parts[i].iov_base, parts[i].iov_len);
    }
    pthread_mutex_unlock(&mutex);
}

static void note(char kind, int file, int64_t number, const void *data, size_t length) {
    struct iovec part = {(void *)data, length};
    entry(kind, file, number, &part, 1);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

long syscall(long number, ...) {
    static __typeof__(&syscall) real;
    static struct iocb asked; /* one at a time, by one thread */
    long of[6];
    __builtin_va_list more;
    __builtin_va_start(more, number);
    for (int i = 0; i < 6; i++) of[i] = __builtin_va_arg(more, long);
    __builtin_va_end(more);
    if (!real) real = REAL(syscall);
    if (number == SYS_io_setup) {
        pthread_mutex_lock(&mutex);
        int is_slow = is_on() && sync_ms > 0;
        pthread_mutex_unlock(&mutex);
        if (is_slow) {
            errno = ENOSYS;
            return -1;
        }
    }
    if (number == SYS_io_submit) {
        asked = **(struct iocb **)of[2];
        note('D', (int)asked.aio_fildes, asked.aio_offset, "", 0);
        note('W', (int)asked.aio_fildes, asked.aio_offset, (void *)asked.aio_buf, asked.aio_nbytes);
        note('B', (int)asked.aio_fildes, 0, "", 0);
    }
    long result = real(number, of[0], of[1], of[2], of[3], of[4], of[5]);
    if (number == SYS_io_getevents && result == 1 && !no_sync &&
        ((struct io_event *)of[3])->res == (int64_t)asked.aio_nbytes)
        note('S', (int)asked.aio_fildes, 0, "", 0);
    return result;
}

static int is_socket(int file) {
    struct stat state;
    return fstat(file, &state) == 0 && S_ISSOCK(state.st_mode);
}

ssize_t pwrite(int file, const void *data, size_t length, off_t position) {
    static __typeof__(&pwrite) real;
    if (!real) real = REAL(pwrite);
    ssize_t done = real(file, data, length, position);
    if (done > 0) note('W', file, position, data, (size_t)done);
    return done;
}
ssize_t pwrite64(int file, const void *data, size_t length, off64_t position) {
    return pwrite(file, data, length, position);
}
ssize_t pwritev2(int file, const struct iovec *parts, int count, off_t position, int flags) {
    if (flags & RWF_DONTCACHE) note('P', file, position, "", 0);
    ssize_t done = REAL(pwritev2)(file, parts, count, position, flags);
    if (done > 0) note('W', file, position, parts[0].iov_base, (size_t)done); /* one part each */
    return done;
}
ssize_t pwritev64v2(int file, const struct iovec *parts, int count, off64_t position, int flags) {
    return pwritev2(file, parts, count, position, flags);
}

static int synced(int file, int (*real)(int)) {
    note('B', file, 0, "", 0);
    usleep((useconds_t)sync_ms * 1000);
    int result = no_sync ? 0 : real(file);
    if (result == 0 && !no_sync) note('S', file, 0, "", 0);
    return result;
}
int fdatasync(int file) { return synced(file, REAL(fdatasync)); }
int fsync(int file) { return synced(file, REAL(fsync)); }

static int opened(int file, const char *name, int flags) {
    if (file >= 0) note('O', file, (flags & (O_CREAT | O_TRUNC)) != 0, name, strlen(name));
    return file;
}
int openat(int directory, const char *name, int flags, ...) {
    __builtin_va_list more;
    __builtin_va_start(more, flags);
    mode_t mode = (mode_t)__builtin_va_arg(more, int);
    __builtin_va_end(more);
    return opened(REAL(openat)(directory, name, flags, mode), name, flags);
}
int openat64(int directory, const char *name, int flags, ...) {
    __builtin_va_list more;
    __builtin_va_start(more, flags);
    mode_t mode = (mode_t)__builtin_va_arg(more, int);
    __builtin_va_end(more);
    return opened(REAL(openat64)(directory, name, flags, mode), name, flags);
}
int ftruncate(int file, off_t size) {
    int result = REAL(ftruncate)(file, size);
    if (result == 0) note('T', file, size, "", 0);
    return result;
}
int ftruncate64(int file, off64_t size) { return ftruncate(file, size); }
int posix_fallocate(int file, off_t start, off_t size) {
    int result = REAL(posix_fallocate)(file, start, size);
    if (result == 0) note('A', file, start + size, "", 0);
    return result;
}
int posix_fallocate64(int file, off64_t start, off64_t size) {
    return posix_fallocate(file, start, size);
}
int renameat(int one, const char *old, int other, const char *new) {
    int result = REAL(renameat)(one, old, other, new);
    struct iovec parts[3] = {{(void *)old, strlen(old)}, {"\n", 1}, {(void *)new, strlen(new)}};
    if (result == 0) entry('N', one, 0, parts, 3);
    return result;
}
int unlinkat(int directory, const char *name, int flags) {
    int result = REAL(unlinkat)(directory, name, flags);
    if (result == 0) note('U', directory, 0, name, strlen(name));
    return result;
}
int close(int file) {
    note('C', file, 0, "", 0);
    return REAL(close)(file);
}

ssize_t read(int file, void *data, size_t length) {
    static __typeof__(&read) real;
    if (!real) real = REAL(read);
    ssize_t done = real(file, data, length);
    if (done > 0 && is_socket(file)) note('R', file, 0, data, (size_t)done);
    return done;
}
ssize_t recv(int file, void *data, size_t length, int flags) {
    ssize_t done = REAL(recv)(file, data, length, flags);
    if (done > 0) note('R', file, 0, data, (size_t)done);
    return done;
}
ssize_t write(int file, const void *data, size_t length) {
    static __typeof__(&write) real;
    if (!real) real = REAL(write);
    if (is_socket(file)) note('X', file, 0, data, length);
    return real(file, data, length);
}
ssize_t writev(int file, const struct iovec *parts, int count) {
    if (is_socket(file)) entry('X', file, 0, parts, count);
    return REAL(writev)(file, parts, count);
}
ssize_t send(int file, const void *data, size_t length, int flags) {
    note('X', file, 0, data, length);
    return REAL(send)(file, data, length, flags);
}
ssize_t sendmsg(int file, const struct msghdr *message, int flags) {
    entry('X', file, 0, message->msg_iov, (int)message->msg_iovlen);
    return REAL(sendmsg)(file, message, flags);
}
