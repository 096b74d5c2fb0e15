cdef class KeepaliveTimer:
    cdef object _clock, _random, _kept, _timer
    cdef double _ping_sent_at, _answered_at, _began_at
    cdef public double interval_s
    cdef public object ping_max
    cdef public double last_heard
    cdef readonly object round_trip_s
    cdef readonly long long unanswered

    cpdef void stop(self) except *
    cdef void _schedule(self, double delay_s) except *
    cdef bint _is_idle(self, double now) except -1
