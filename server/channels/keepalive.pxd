# C types for keepalive.py.

cdef class KeepaliveTimer:
    cdef object _clock
    cdef object _random
    cdef object _kept
    cdef object _timer
    cdef double _ping_sent_at
    cdef double _answered_at
    cdef double _began_at
    cdef public double interval_s
    cdef public object ping_max
    cdef public double last_heard
    cdef readonly object round_trip_s
    cdef readonly long long unanswered

    cpdef void stop(self) except *
    cdef void _schedule(self, double delay_s) except *
    cdef bint _is_idle(self, double now) except -1
