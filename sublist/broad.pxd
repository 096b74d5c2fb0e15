# C types for broad.py.

cimport cython

from midge.sublist cimport octets
from midge.sublist.result cimport SubListResult
from midge.sublist.subjects cimport has_dot, has_empty_token

cdef Py_ssize_t _ENTRIES_MAX


@cython.final
@cython.no_gc
cdef class Broad:
    cdef readonly unsigned long long generation
    cdef readonly Py_ssize_t length
    cdef readonly bint is_last_token
    cdef bint is_used
    cdef readonly bytes prefix
    cdef readonly SubListResult result


@cython.final
cdef class BroadMatches:
    cdef list _entries
    cdef Py_ssize_t _next

    @cython.locals(broad=Broad, length=Py_ssize_t)
    cpdef SubListResult find(self, bytes subject, unsigned long long generation)
    @cython.locals(broad=Broad, known=Broad, oldest=Broad, i=Py_ssize_t)
    cpdef void keep(
        self,
        bytes prefix,
        bint is_last_token,
        SubListResult result,
        unsigned long long generation,
    ) except *
    cpdef void clear(self) except *
