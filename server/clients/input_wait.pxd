# The system calls of input_wait.py, inlined where a loop waits without sleep.

cdef extern from *:
    """
    #include <poll.h>
    #include <sched.h>
    #include <time.h>

    static long long midge_now_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1000000000LL + now.tv_nsec;
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
    bint _wait "midge_wait_for_input"(int descriptor, long long longest_ns) noexcept nogil


cdef inline bint wait_for_input(int descriptor, long long longest_ns) noexcept:
    cdef bint found
    with nogil:
        found = _wait(descriptor, longest_ns)
    return found
