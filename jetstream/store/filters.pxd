cimport cython

from midge.jetstream.store cimport layout, numbers
from midge.jetstream.store.block cimport Block
from midge.jetstream.store.message_index cimport MessageIndex
from midge.jetstream.store.subject_index cimport Pattern, SubjectIndex
from midge.sublist.overlaps cimport OverlapIndex

cdef int _UNKNOWN, _NO, _YES
cdef Py_ssize_t _MANY, _SCANNED_PER_WORK
cdef unsigned long long _SET_COST


@cython.final
cdef class Filters:
    cdef readonly bint is_all
    cdef readonly bytes literal
    cdef SubjectIndex _subjects
    cdef list _patterns
    cdef bytearray _noted
    cdef OverlapIndex _set
    cdef unsigned long long _cost
    cdef public unsigned long long work, last_seq, last_upto
    cdef bint _takes_all
    cdef unsigned long long _narrowed

    @cython.locals(noted=int)
    cpdef bint is_match(self, Py_ssize_t subject) except -1
    cdef bytearray noted(self)
    @cython.locals(pattern=Pattern)
    cpdef bint takes_all(self) except -1
    cdef bytearray note_all(self)
    @cython.locals(limit=Py_ssize_t, left=Py_ssize_t, pattern=Pattern, no=int,
                   subject=Py_ssize_t)
    cdef void note_some(self, Py_ssize_t start, Py_ssize_t end) except *
    @cython.locals(pattern=Pattern, found=bint)
    cdef bint _compare(self, Py_ssize_t subject) except -1


@cython.locals(count="unsigned long long", i=Py_ssize_t, block=Block, first="unsigned long long",
               low=Py_ssize_t, high=Py_ssize_t, rows=bytearray, j=Py_ssize_t)
cpdef unsigned long long count_wanted(
    MessageIndex index, bytearray noted, unsigned long long start, unsigned long long end
) except? 0
