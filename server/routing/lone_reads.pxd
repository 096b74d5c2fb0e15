# C types for lone_reads.py.

cimport cython

cdef int _LONE_TURNS, _READS


@cython.final
cdef class LoneReads:
    cdef public bint is_reading
    cdef int _turns
    cdef int _left

    cpdef bint are_expected(self)
    @cython.locals(is_lone=bint)
    cpdef bint end_read(self)
    cpdef void end_turn(self, Py_ssize_t batches)
