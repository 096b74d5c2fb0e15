cimport cython

from midge.jetstream.store.file cimport records
from midge.jetstream.store.file.group cimport Segment
from midge.jetstream.store.file.log cimport Log
from midge.jetstream.store.file.record_writer cimport RecordWriter
from midge.jetstream.store.indexes cimport Run
from midge.jetstream.store.interface cimport MessageView
from midge.jetstream.store.store cimport Store


cdef class StoredConsumers:
    cdef readonly dict states, operations, written_in
    cdef tuple _latest

    cpdef void save(self, bytes name, bytes state) except *
    cpdef void log(self, bytes name, bytes operation) except *
    cpdef bint delete(self, bytes name) except -1
    @cython.locals(first="unsigned long long", last="unsigned long long")
    cpdef void note_written(self, bytes name, unsigned long long number) except *
    cpdef void note_range(self, bytes name, tuple found) except *
    cpdef void clear(self) except *


cdef class StreamSegments


cdef class FileStore(Store):
    cdef readonly RecordWriter records
    cdef readonly unsigned int number
    cdef public bytes account, name
    cdef public unsigned long long version
    cdef readonly set lost
    cdef public unsigned long long lost_bytes
    cdef readonly Log log
    cdef readonly StoredConsumers stored
    cdef public StreamSegments segments
    cdef public unsigned long long removed_below
    cdef public bint is_behind_hole
    cdef public unsigned long long hole_from

    @cython.locals(found=RecordWriter)
    cpdef int try_next(
        self, tuple filters, unsigned long long start_seq, unsigned long long end_seq,
        MessageView view, object waiter
    ) except? -1
    @cython.locals(row=Py_ssize_t)
    cpdef bint remove(self, unsigned long long seq, bint erase=*) except -1
    cpdef void write_config(self) except *
    cpdef void write_consumer(
        self, int kind, unsigned long long remove_seq, bytes name, bytes body
    ) except *


cdef class StreamSegments:
    cdef readonly FileStore stream

    @cython.locals(stream=FileStore, row=Py_ssize_t, run=Run)
    cpdef bint is_at(
        self, unsigned long long seq, Segment segment, unsigned long long offset
    ) except -1
    @cython.locals(stream=FileStore, row=Py_ssize_t)
    cpdef void move(
        self, unsigned long long seq, Segment segment, unsigned long long offset,
        unsigned long long target
    ) except *
    @cython.locals(stream=FileStore, i=Py_ssize_t, run=Run, seq="unsigned long long",
                   row=Py_ssize_t)
    cpdef list live_in(self, Segment segment, Py_ssize_t start, Py_ssize_t end)
    @cython.locals(records=RecordWriter)
    cpdef bint is_recorded_in(self, Segment segment) except -1
    @cython.locals(stream=FileStore, i=Py_ssize_t, run=Run, place=Segment)
    cpdef bint needs_purge(
        self, unsigned long long upto, unsigned long long group, Segment segment
    ) except -1
    @cython.locals(stream=FileStore, run=Run, place=Segment)
    cpdef bint needs_tombstone(
        self, unsigned long long seq, unsigned long long group, Segment segment
    ) except -1

cpdef bytes prefixed(bytes name)
