# C types for recent.py.

cimport cython

from midge.sublist cimport octets
from midge.sublist.result cimport SubListResult

cdef Py_ssize_t _SETS_MIN, _SETS_MAX, _GROWTH, _WAYS


@cython.final
@cython.no_gc
cdef class Recent:
    # The fields that `find` reads come first, so that they share a cache line with the reference
    # count.
    cdef readonly unsigned long long generation
    cdef readonly Py_ssize_t length
    cdef readonly unsigned long long first
    cdef readonly unsigned long long last
    cdef readonly SubListResult result
    cdef readonly unsigned long long second
    cdef readonly unsigned long long third
    cdef readonly bytes subject


@cython.final
cdef class RecentMatches:
    cdef Py_ssize_t _sets
    cdef list _slots
    cdef list _filled

    @cython.locals(recent=Recent, place="size_t", i=Py_ssize_t, slots=list, length=Py_ssize_t)
    cpdef SubListResult find(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end,
        unsigned long long generation
    )
    @cython.locals(place="size_t", slots=list, oldest=Recent)
    cpdef void keep(
        self, bytes subject, SubListResult result, unsigned long long generation
    ) except *
    cdef Py_ssize_t _place(self, bytes subject) noexcept
    @cython.locals(filled=list, slots=list, place="size_t")
    cpdef void clear(self) except *
