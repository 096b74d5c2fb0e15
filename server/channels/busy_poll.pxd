cimport cython

from midge.server.routing cimport plain_socket

cdef Py_ssize_t _LONE_BYTES_MAX, _REST_READS, _REST_READS_MAX, _TRIAL_READS, _BUSY_READS
cdef Py_ssize_t _MISSES_MAX, _CROWD_TURNS_MAX
cdef long long _STAY_NS
cdef int _READS_FROM_TURN
cdef double _CPU_SHARE_MAX
cdef int _RESTING, _TRYING_SLEEP, _TRYING_BUSY, _BUSY


cdef class BusyPoll:
    cdef readonly int descriptor
    cdef readonly long long longest_ns
    cdef public long long stay_ns
    cdef object _soon, _cpu_time, _read, _due
    cdef int _phase
    cdef Py_ssize_t _left, _rest_reads
    cdef bint _is_due, _is_inside, _has_read
    cdef long long _stay_ends_ns
    cdef int _reads_from_turn
    cdef bint _is_left_to_loop
    cdef Py_ssize_t _misses, _turns
    cdef double _began_s, _sleeping_s

    cpdef void after_read(self, Py_ssize_t count) except *
    cpdef void count_turn(self) noexcept
    @cython.locals(is_left_to_loop=bint)
    cpdef void wait(self) except *
    cpdef void miss(self) noexcept
    cpdef void enter(self) noexcept
    cpdef void leave(self) noexcept
    @cython.locals(now_ns=cython.longlong)
    cpdef bint stays(self) except -1
    @cython.locals(now_s=double, used_s=double)
    cdef void _go_on(self) except *
    cdef void _rest_longer(self) noexcept
    cdef void _enter(self, int phase, Py_ssize_t reads) noexcept
