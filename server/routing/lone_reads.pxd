# C types for lone_reads.py.

cimport cython

cdef int _LONE_TURNS, _TURNS_AT_ONCE
cdef Py_ssize_t _READS_MAX


@cython.final
cdef class LoneReads:
    cdef public bint is_reading
    cdef Py_ssize_t _before
    cdef Py_ssize_t _each
    cdef bint _is_shared
    cdef int _turns
    cdef Py_ssize_t _left

    cpdef bint are_expected(self) noexcept
    cpdef void begin_read(self, Py_ssize_t receivers) noexcept
    @cython.locals(is_lone=bint)
    cpdef bint end_read(self, Py_ssize_t receivers) noexcept
    cpdef void end_turn(self, Py_ssize_t batches) noexcept
