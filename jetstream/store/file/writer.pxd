# C types for writer.py.

cimport cython

from midge.jetstream.store cimport numbers
from midge.jetstream.store.file cimport records
from midge.jetstream.store.file.group cimport Group, Segment
from midge.jetstream.store.file.log cimport Log
from midge.jetstream.store.file.reader cimport RecordReader
from midge.jetstream.store.indexes cimport Incoming, Run
from midge.jetstream.store.message_index cimport Block
from midge.jetstream.store.published cimport PublishedLines

cdef Py_ssize_t _RESERVE, _HEAD, _FIXED
cdef Py_ssize_t _BEYOND
cdef int _MESSAGE


cdef class RecordWriter(RecordReader):
    cdef public bytes account
    cdef public bytes name
    cdef public unsigned long long version
    cdef bytearray _removals
    cdef bint _is_moved
    cdef unsigned long long _configured_in
    cdef unsigned long long _bounded_in
    cdef unsigned long long _ends_in
    cdef unsigned long long _lost_from

    @cython.locals(log=Log, subject_length=Py_ssize_t, headers_length=Py_ssize_t, extra=bytes,
                   flags=int, middle=Py_ssize_t, length=Py_ssize_t, at=Py_ssize_t, group=Group,
                   data=bytearray)
    cdef unsigned long long place(self, Incoming incoming) except? 0xFFFFFFFF
    @cython.locals(log=Log, group=Group, end=Py_ssize_t, placed=Py_ssize_t,
                   size="unsigned long long")
    cdef Py_ssize_t place_lines(self, PublishedLines lines, Py_ssize_t first) except -1
    @cython.locals(run=Run)
    cdef void _note_run(
        self, unsigned long long seq, Segment segment, unsigned long long size
    ) except *
    cdef void admit(self) except *
    cdef void moved(self) except *
    @cython.locals(position=Py_ssize_t)
    cdef void removed(self, unsigned long long seq, bint erase) except *
    cdef void purged(self, bytes subject, unsigned long long upto) except *
    cdef void _touch(self) except *
    @cython.locals(segment=Segment)
    cdef void run_shrank(self, Py_ssize_t i, Run run, unsigned long long size) except *
    @cython.locals(segment=Segment)
    cdef void run_gone(self, Run run) except *
    @cython.locals(length=Py_ssize_t, at=Py_ssize_t, group=Group)
    cdef void _write(
        self, int kind, unsigned long long seq, long long time_ns, bytes body
    ) except *
    cdef void _note_kind(self, int kind, Segment segment) except *
    @cython.locals(body=bytes)
    cdef void _write_config(self) except *
    @cython.locals(position=Py_ssize_t, block=Block, offset=Py_ssize_t, run=Run, at=Py_ssize_t,
                   data=bytearray, extra=Py_ssize_t, length=Py_ssize_t, start=Py_ssize_t)
    cdef object _erasure(self, unsigned long long seq)
