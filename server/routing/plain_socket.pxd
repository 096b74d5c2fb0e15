# The system calls of plain_socket.py, inlined where chunks are written and bytes awaited or read.

cdef extern from *:
    """
    #include <errno.h>
    #include <poll.h>
    #include <sched.h>
    #include <sys/socket.h>
    #include <time.h>
    #if defined(__linux__)
    #include <sys/epoll.h>
    #endif

    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0  /* Python ignores SIGPIPE */
    #endif

    static inline Py_ssize_t midge_receive(int descriptor, unsigned char *data, size_t length) {
        Py_ssize_t count = recv(descriptor, data, length, MSG_DONTWAIT);
        return count < 0 ? -errno : count;
    }

    #define MIDGE_READY_MAX 256

    /* The descriptors with events; of those that have ended, the complement. */
    static int midge_ready(int descriptor, int *found) {
    #if defined(__linux__)
        struct epoll_event events[MIDGE_READY_MAX];
        int count = epoll_wait(descriptor, events, MIDGE_READY_MAX, 0);
        for (int i = 0; i < count; i++) {
            int number = events[i].data.fd;
            found[i] = events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR) ? ~number : number;
        }
        return count < 0 ? 0 : count;
    #else
        (void)descriptor, (void)found;  /* no caller: see midge/platforms.py */
        return 0;
    #endif
    }

    static long long midge_now_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1000000000LL + now.tv_nsec;
    }

    #define MIDGE_NOTHING_CAME (-100001)
    #define MIDGE_OTHERS_FIRST (-100002)

    /* What `descriptor` brings, until `others` can be read. Whoever else could run goes first. */
    static Py_ssize_t midge_receive_next(
        int descriptor, unsigned char *data, size_t length, int others, long long longest_ns
    ) {
        struct pollfd wanted = {others, POLLIN, 0};
        long long end_ns = midge_now_ns() + longest_ns;
        for (;;) {
            Py_ssize_t count = midge_receive(descriptor, data, length);
            if (count != -EAGAIN && count != -EWOULDBLOCK)
                return count;
            if (poll(&wanted, 1, 0) != 0)
                return MIDGE_OTHERS_FIRST;
            if (midge_now_ns() >= end_ns)
                return MIDGE_NOTHING_CAME;
            sched_yield();
        }
    }

    /* Whoever else could run on this processor goes first. */
    static int midge_wait_for_input(int descriptor, long long longest_ns) {
        struct pollfd wanted = {descriptor, POLLIN, 0};
        long long end_ns = midge_now_ns() + longest_ns;
        while (poll(&wanted, 1, 0) == 0) {
            if (midge_now_ns() >= end_ns)
                return 0;
            sched_yield();
        }
        return 1;
    }
    """
    int MSG_DONTWAIT, MSG_NOSIGNAL
    Py_ssize_t _send "send"(int descriptor, const void *data, size_t length, int flags) noexcept
    Py_ssize_t midge_receive(int descriptor, unsigned char *data, size_t length) noexcept nogil
    enum: READY_MAX "MIDGE_READY_MAX"
    int midge_ready(int descriptor, int *found) noexcept
    enum: NOTHING_CAME "MIDGE_NOTHING_CAME"
    enum: OTHERS_FIRST "MIDGE_OTHERS_FIRST"
    Py_ssize_t midge_receive_next(
        int descriptor, unsigned char *data, size_t length, int others, long long longest_ns
    ) noexcept nogil
    long long midge_now_ns() noexcept
    bint midge_wait_for_input(int descriptor, long long longest_ns) noexcept nogil


cdef inline Py_ssize_t send(int descriptor, const unsigned char *data, Py_ssize_t length) noexcept:
    return _send(descriptor, data, length, MSG_DONTWAIT | MSG_NOSIGNAL)


cdef inline Py_ssize_t receive(
    int descriptor, unsigned char *data, Py_ssize_t start, Py_ssize_t length
) noexcept:
    return midge_receive(descriptor, data + start, length)


cdef inline Py_ssize_t receive_more(
    int descriptor, unsigned char *data, Py_ssize_t start, Py_ssize_t length
) noexcept:
    cdef Py_ssize_t count
    with nogil:
        count = midge_receive(descriptor, data + start, length)
    return count


cdef inline Py_ssize_t receive_next(
    int descriptor, unsigned char *data, Py_ssize_t start, Py_ssize_t length, int others,
    long long longest_ns
) noexcept:
    cdef Py_ssize_t count
    with nogil:
        count = midge_receive_next(descriptor, data + start, length, others, longest_ns)
    return count


cdef inline int ready(object epoll, int descriptor, list found) except -1:
    cdef int numbers[READY_MAX]
    cdef int count = midge_ready(descriptor, numbers)
    cdef int i
    for i in range(count):
        found[i] = numbers[i]
    return count


cdef inline long long now_ns() noexcept:
    return midge_now_ns()


cdef inline bint wait_for_input(int descriptor, long long longest_ns) noexcept:
    cdef bint found
    with nogil:
        found = midge_wait_for_input(descriptor, longest_ns)
    return found
