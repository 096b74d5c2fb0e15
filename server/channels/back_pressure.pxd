cimport cython

from midge.server.routing.client cimport Client


cdef class BackPressure:
    cdef object _channel
    cdef double _behind_since
    cdef Py_ssize_t _batch_left
    cdef bint _has_progressed
    cdef object _deadline_timer, _hold_timer
    cdef Client _waits_for
    cdef public Client held_by
    cdef public dict holding
    cdef readonly long long stalls

    @cython.locals(limit=Py_ssize_t)
    cpdef bint has_room(self, Client publisher, Py_ssize_t pending) except -1
    cpdef void fell_behind(self) except *
    cpdef void progressed(self, Py_ssize_t taken) except *
    cpdef void caught_up(self) except *
    cpdef void pause_for(self, Client receiver) except *
    @cython.locals(receiver=Client)
    cpdef void hold_back(self) except *
