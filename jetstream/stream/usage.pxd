# C types for usage.py.

cimport cython

cdef int _UNLIMITED


@cython.final
cdef class Usage:
    cdef public long long limit
    cdef public Usage parent
    cdef public long long used

    @cython.locals(usage=Usage)
    cpdef void add(self, long long size) noexcept
    @cython.locals(parent=Usage)
    cpdef bint is_exceeded(self, long long size) except -1
    cpdef bint would_exceed_account(self, long long size) except -1
    @cython.locals(parent=Usage)
    cpdef bint has_room(self, long long size) except -1
