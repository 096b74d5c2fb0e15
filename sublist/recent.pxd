# C types for recent.py.

cimport cython

from midge.sublist cimport octets, subject_table
from midge.sublist.result cimport SubListResult

cdef Py_ssize_t _CAPACITY_MIN, _CAPACITY_MAX, _GROWTH


@cython.final
cdef class RecentMatches:
    cdef Py_ssize_t _capacity
    cdef unsigned long long _generation
    cdef bint _has_table
    cdef list _results
    cdef list _subjects
    cdef bytearray _table
    cdef unsigned char *_table_data
    cdef Py_ssize_t _turn

    @cython.locals(number=Py_ssize_t)
    cpdef SubListResult find(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end,
        unsigned long long generation
    )
    cpdef void keep(
        self, bytes subject, SubListResult result, unsigned long long generation
    ) except *
    cpdef void clear(self) except *
    cdef void _begin(self) except *
