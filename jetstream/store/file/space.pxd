cimport cython

from midge.jetstream.store.disk cimport Write
from midge.jetstream.store.file.group cimport Segment, pages

cdef Py_ssize_t _AHEAD_MIN, _AHEAD_MAX, _PLENTY
cdef Py_ssize_t _ZEROED_GROUP_MAX, _ZEROED_BYTES, _LARGE_GROUP, _PAGE_MASK


cpdef Py_ssize_t ahead_of(Segment segment) noexcept
cpdef bint has_plenty(object disk) except -1


cdef class Space:
    cdef public bint is_short
    cdef object _disk


@cython.final
cdef class NextSegment:
    cdef readonly bint is_extending
    cdef object _disk
    cdef list _chores
    cdef Py_ssize_t _segment_max
    cdef Segment _prepared, _last

    cpdef Segment get(self, unsigned long long number)
    cpdef Segment take(self, unsigned long long number)
    @cython.locals(zeroed=bint, ahead=Py_ssize_t, first=Py_ssize_t, soon=Py_ssize_t)
    cpdef void prepare(self, Segment segment, Py_ssize_t synced, bint is_lone) except *
    cdef Segment _create(self, unsigned long long number)
    @cython.locals(write=Write, start=Py_ssize_t)
    cdef void _extend(self, Segment segment, Py_ssize_t ahead, bint zeroed, bint is_lone) except *
    cdef void _warm(self, Segment segment) except *
    cdef void _take_warming(self, Segment segment, Write write) except *
