# C types for replayed.py.

cimport cython

from midge.jetstream.store cimport numbers, removing
from midge.jetstream.store.file cimport records
from midge.jetstream.store.file.group cimport Segment
from midge.jetstream.store.file.log cimport Log
from midge.jetstream.store.file.writer cimport RecordWriter
from midge.jetstream.store.indexes cimport Incoming

cdef Py_ssize_t _HEAD
cdef int _MESSAGE


cdef class ReplayedStore(RecordWriter):
    cdef public dict _consumers
    cdef public dict _operations
    cdef public dict _written_in
    cdef tuple _latest
    cdef public list _ids
    cdef public list _ttls
    cdef unsigned long long _removed_below
    cdef bint _is_behind_hole
    cdef unsigned long long _hole_from

    @cython.locals(kind=int, seq="unsigned long long", end=Py_ssize_t, position=Py_ssize_t,
                   time_ns="long long", subject=bytes)
    cpdef void replay(
        self, bytearray data, Py_ssize_t at, Segment segment, Py_ssize_t offset
    ) except *
    @cython.locals(seq="unsigned long long", kind="unsigned int", extra=Py_ssize_t,
                   end=Py_ssize_t, incoming=Incoming, headers=Py_ssize_t, size=Py_ssize_t)
    cdef void _replay_message(
        self, bytearray data, Py_ssize_t at, Segment segment, Py_ssize_t offset
    ) except *
    cdef void _replay_bounds(
        self, unsigned long long first_seq, unsigned long long last_seq
    ) except *
    cdef void _forget(self, unsigned long long seq) except *
