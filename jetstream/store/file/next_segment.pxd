# C types for next_segment.py.

cimport cython

from midge.jetstream.store.file.group cimport Segment
from midge.jetstream.store.file.space cimport ahead_of, pages


@cython.final
cdef class NextSegment:
    cdef readonly bint is_extending
    cdef object _disk
    cdef list _chores
    cdef Py_ssize_t _segment_max
    cdef Segment _prepared

    cpdef Segment get(self, unsigned long long number)
    cpdef Segment take(self, unsigned long long number)
    @cython.locals(ahead=Py_ssize_t)
    cpdef void prepare(self, Segment segment) except *
    cdef Segment _create(self, unsigned long long number)
    cdef void _extend(self, Segment segment, Py_ssize_t ahead) except *
