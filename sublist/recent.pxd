cimport cython

from midge.sublist cimport subject_table
from midge.sublist.result cimport SubListResult

cdef Py_ssize_t _CAPACITY_MIN, _CAPACITY_MAX, _GROWTH
cdef unsigned long long _NO_GENERATION


@cython.final
cdef class RecentMatches:
    cdef unsigned long long generation
    cdef unsigned char *table
    cdef Py_ssize_t capacity
    cdef public long long hits
    cdef bytearray _memory
    cdef bint _has_table
    cdef list _results, _subjects
    cdef Py_ssize_t _turn

    @cython.locals(result=SubListResult)
    cpdef SubListResult find(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end,
        unsigned long long generation
    )
    cpdef void keep(
        self, bytes subject, SubListResult result, unsigned long long generation
    ) except *
    cpdef void clear(self) except *
    cdef void _begin(self) except *
