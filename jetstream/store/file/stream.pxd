# C types for stream.py.

cimport cython

from midge.jetstream.store.file cimport records
from midge.jetstream.store.file.group cimport Segment
from midge.jetstream.store.file.log cimport Log
from midge.jetstream.store.file.replayed cimport ReplayedStore
from midge.jetstream.store.indexes cimport Run


cdef class FileStore(ReplayedStore):
    cdef public long long dedup_window_ns
    cdef public unsigned long long lost_bytes

    @cython.locals(position=Py_ssize_t)
    cpdef bint remove(self, unsigned long long seq, bint erase=*) except -1

    @cython.locals(position=Py_ssize_t, run=Run)
    cpdef bint is_at(
        self, unsigned long long seq, Segment segment, unsigned long long offset
    ) except -1
    cpdef void move(
        self, unsigned long long seq, Segment segment, unsigned long long offset,
        unsigned long long target
    ) except *
    cpdef bint is_told_in(self, Segment segment) except -1
    @cython.locals(i=Py_ssize_t, run=Run, place=Segment)
    cpdef bint needs_purge(
        self, unsigned long long upto, unsigned long long group, Segment segment
    ) except -1
    @cython.locals(run=Run, place=Segment)
    cpdef bint needs_tombstone(
        self, unsigned long long seq, unsigned long long group, Segment segment
    ) except -1
