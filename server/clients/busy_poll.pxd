# C types for busy_poll.py.

cimport cython

from midge.server.routing cimport plain_socket

cdef Py_ssize_t _LONE_BYTES_MAX, _REST_READS, _REST_READS_MAX, _TRIAL_READS, _BUSY_READS
cdef Py_ssize_t _MISSES_MAX, _CROWD_TURNS_MAX
cdef double _CPU_SHARE_MAX
cdef int _RESTING, _TRYING_SLEEP, _TRYING_BUSY, _BUSY


cdef class BusyPoll:
    cdef object _soon
    cdef int _descriptor
    cdef long long _longest_ns
    cdef object _cpu_time
    cdef object _read
    cdef int _phase
    cdef Py_ssize_t _left
    cdef Py_ssize_t _rest_reads
    cdef bint _is_due
    cdef Py_ssize_t _misses
    cdef Py_ssize_t _turns
    cdef double _began_s
    cdef double _sleeping_s

    cpdef void after_read(self, Py_ssize_t count) except *
    cpdef void count_turn(self) noexcept
    cpdef void wait(self) except *
    @cython.locals(now_s=double, used_s=double)
    cdef void _go_on(self) except *
    cdef void _rest_longer(self) noexcept
    cdef void _enter(self, int phase, Py_ssize_t reads) noexcept
