cdef Py_ssize_t _TURN, _LEAST_SHARE, _DRAWN_BYTES, _RENEWED_BELOW_BYTES, _ENDED_BYTES


cdef class FairTurns:
    cdef object _clock
    cdef Py_ssize_t _left_bytes, _waiting
    cdef bint _is_used

    cpdef Py_ssize_t draw(self, Py_ssize_t least_bytes=*) except -1
    cpdef void wait(self, object go_on) except *
    cpdef Py_ssize_t share(self) except -1
    cpdef void give_back(self, Py_ssize_t count) except *
    cdef Py_ssize_t _use(self, Py_ssize_t count) except -1


cdef class CloseQueue:
    cdef FairTurns _turns
    cdef object _clock, _waiting
    cdef Py_ssize_t _budget
    cdef bint _is_due

    cpdef bint admit(self) except -1
    cpdef void wait(self, object end) except *
    cdef void _ask_for_a_turn(self) except *
