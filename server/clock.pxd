# The machine's time by a C call; clock.py has the contracts.

cdef extern from *:
    """
    #include <time.h>

    static inline long long midge_time_ns(clockid_t clock) {
        struct timespec now;
        clock_gettime(clock, &now);
        return (long long)now.tv_sec * 1000000000LL + now.tv_nsec;
    }
    static inline long long midge_wall_ns(void) { return midge_time_ns(CLOCK_REALTIME); }
    static inline long long midge_monotonic_ns(void) { return midge_time_ns(CLOCK_MONOTONIC); }
    """
    long long midge_wall_ns() noexcept nogil
    long long midge_monotonic_ns() noexcept nogil


cdef inline long long wall_ns() noexcept:
    return midge_wall_ns()


cdef inline long long monotonic_ns() noexcept:
    return midge_monotonic_ns()
