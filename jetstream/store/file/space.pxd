# C types for space.py.

from midge.jetstream.store.file.group cimport Segment, pages

cdef Py_ssize_t _AHEAD_MIN, _AHEAD_MAX, _PLENTY


cpdef Py_ssize_t ahead_of(Segment segment) noexcept
cpdef bint has_plenty(object disk) except -1


cdef class Space:
    cdef public bint is_short
    cdef object _disk
