# C types for sweep.py.

cimport cython

from midge.jetstream.store cimport layout, numbers
from midge.jetstream.store.filters cimport Filters
from midge.jetstream.store.message_index cimport Block, MessageIndex
from midge.jetstream.store.subject_index cimport SubjectIndex

cdef unsigned long long _FAR, _NO_LIMIT


@cython.final
cdef class Sweep:
    cdef readonly unsigned long long count
    cdef readonly unsigned long long size
    cdef readonly unsigned long long total_count
    cdef readonly unsigned long long total_size
    cdef MessageIndex _index
    cdef SubjectIndex _subjects
    cdef Filters _wanted
    cdef unsigned long long _upto
    cdef unsigned long long _least_count
    cdef unsigned long long _least_size
    cdef bint _is_open

    @cython.locals(last="unsigned long long", i=Py_ssize_t, block=Block,
                   first="unsigned long long", low=Py_ssize_t, high=Py_ssize_t)
    cpdef void take(self, unsigned long long start, unsigned long long end) except *
    cdef bint _is_done(self) noexcept
    @cython.locals(before="unsigned long long", rows=bytearray, position=Py_ssize_t,
                   end=Py_ssize_t, size="unsigned long long", number=Py_ssize_t)
    cdef void _take_rows(self, Block block, Py_ssize_t low, Py_ssize_t high) except *
    @cython.locals(after="unsigned long long", seq="unsigned long long")
    cdef void _shorten(self, Block block, Py_ssize_t position, Py_ssize_t number) except *
