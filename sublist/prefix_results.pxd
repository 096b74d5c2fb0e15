cimport cython

from midge.sublist cimport octets
from midge.sublist.result cimport SubListResult
from midge.sublist.subjects cimport has_dot, has_empty_token

cdef Py_ssize_t _ENTRIES_MAX


@cython.final
@cython.no_gc
cdef class PrefixResult:
    cdef readonly unsigned long long generation
    cdef readonly Py_ssize_t length
    cdef readonly bint is_last_token
    cdef bint is_used
    cdef readonly bytes prefix
    cdef readonly SubListResult result


@cython.final
cdef class PrefixResults:
    cdef list _entries
    cdef Py_ssize_t _next

    @cython.locals(entry=PrefixResult, length=Py_ssize_t)
    cpdef SubListResult find(self, bytes subject, unsigned long long generation)
    @cython.locals(entry=PrefixResult, known=PrefixResult, oldest=PrefixResult, i=Py_ssize_t)
    cpdef void keep(
        self,
        bytes prefix,
        bint is_last_token,
        SubListResult result,
        unsigned long long generation,
    ) except *
    cpdef void clear(self) except *
