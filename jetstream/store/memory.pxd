# C types for memory.py.

cimport cython

from midge.jetstream.store cimport layout, numbers, pages
from midge.jetstream.store.indexed cimport Incoming, Run
from midge.jetstream.store.interface cimport MessageView
from midge.jetstream.store.lookups cimport SearchableStore
from midge.jetstream.store.published cimport PublishedLines
from midge.protocol cimport memory
from midge.protocol.frame cimport Frame

cdef Py_ssize_t _HEAD, _CHUNK_MIN, _CHUNK_MAX, _READY, _FIXED


@cython.final
cdef class Chunk:
    cdef readonly bytearray data
    cdef public Py_ssize_t used
    cdef Py_ssize_t _ready

    @cython.locals(ready=Py_ssize_t)
    cdef void make_ready(self, Py_ssize_t length) except *


cdef class MemoryStore(SearchableStore):
    cdef bytes _config
    cdef list _thin
    cdef Chunk _chunk

    cpdef unsigned long long append(
        self, bytes subject, bytes headers, bytes payload, long long time_ns,
        unsigned long long seq=*, long long ttl_s=*, bytes msg_id=*
    ) except 0
    cpdef unsigned long long append_frame(self, Frame frame, long long time_ns) except 0
    @cython.locals(stored=Py_ssize_t)
    cpdef Py_ssize_t append_lines(self, PublishedLines lines, long long time_ns) except -1
    cpdef void skip_to(self, unsigned long long last_seq) except *

    @cython.locals(middle=Py_ssize_t, length=Py_ssize_t, chunk=Chunk, data=bytearray,
                   offset=Py_ssize_t)
    cdef unsigned long long _place(self, Incoming incoming) except? 0xFFFFFFFF
    @cython.locals(rows=bytearray, row=Py_ssize_t, length=Py_ssize_t, chunk=Chunk,
                   data=bytearray, end=Py_ssize_t, size=Py_ssize_t, offset=Py_ssize_t,
                   start=Py_ssize_t)
    cdef Py_ssize_t _place_lines(self, PublishedLines lines, Py_ssize_t first) except -1
    @cython.locals(run=Run, chunk=Chunk, size=Py_ssize_t)
    cdef Chunk _chunk_for(self, unsigned long long seq, Py_ssize_t length)
    cdef unsigned long long _counted(
        self, Py_ssize_t subject, Py_ssize_t headers, Py_ssize_t payload
    ) except? 0
    @cython.locals(position=Py_ssize_t, run=Run, chunk=Chunk)
    cpdef long long time_of(self, unsigned long long seq) except? -1
    @cython.locals(chunk=Chunk, data=bytearray)
    cdef bint _view_at(
        self, MessageView view, Run run, unsigned long long offset, unsigned long long size,
        Py_ssize_t number
    ) except -1
    @cython.locals(chunk=Chunk, left=Py_ssize_t)
    cdef void _lost_bytes(self, Py_ssize_t i, Run run, unsigned long long size) except *
    cdef void _lost_run(self, Run run) except *
    @cython.locals(run=Run, i=Py_ssize_t)
    cpdef bint shrink_next(self) except -1
    @cython.locals(following=Run, before=Run, end="unsigned long long", old=Chunk, new=Chunk,
                   merged=Chunk, seq="unsigned long long", position=Py_ssize_t,
                   offset=Py_ssize_t, length=Py_ssize_t, left=Py_ssize_t)
    cdef void _shrink(self, Py_ssize_t i, Run run, Py_ssize_t left) except *
