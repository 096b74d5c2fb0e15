# C types for recent.py.

cimport cython

from midge.sublist cimport octets
from midge.sublist.result cimport SubListResult

cdef unsigned int _SETS, _WAYS


@cython.final
@cython.no_gc
cdef class Recent:
    cdef readonly bytes subject
    cdef readonly SubListResult result
    cdef readonly unsigned long long generation


@cython.final
cdef class RecentMatches:
    cdef list _slots
    cdef list _filled

    @cython.locals(recent=Recent, place="size_t", i="size_t", slots=list)
    cpdef SubListResult find(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end,
        unsigned long long generation
    )
    @cython.locals(place="size_t", slots=list)
    cpdef void keep(
        self, bytes subject, SubListResult result, unsigned long long generation
    ) except *
    @cython.locals(filled=list, slots=list, place="size_t")
    cpdef void clear(self) except *
