cimport cython

from midge.jetstream.store cimport layout, numbers
from midge.jetstream.store.indexes cimport AppendedMessage, Indexes, Medium, Run
from midge.jetstream.store.interface cimport MessageView
from midge.jetstream.store.store cimport Store
from midge.jetstream.store.published cimport PublishedLines
from midge.protocol cimport memory

cdef Py_ssize_t _HEAD, _CHUNK_MIN, _CHUNK_MAX, _READY, _FIXED


@cython.final
cdef class Chunk:
    cdef readonly bytearray data
    cdef public Py_ssize_t used
    cdef Py_ssize_t _ready

    @cython.locals(ready=Py_ssize_t)
    cdef void make_ready(self, Py_ssize_t length) except *


cdef class MemoryStore(Store):
    pass


cdef class Chunks(Medium):
    cdef list _thin
    cdef Chunk _chunk

    @cython.locals(middle=Py_ssize_t, length=Py_ssize_t, chunk=Chunk, data=bytearray,
                   offset=Py_ssize_t)
    cdef unsigned long long place(self, AppendedMessage incoming) except? 0xFFFFFFFF
    @cython.locals(rows=bytearray, row=Py_ssize_t, length=Py_ssize_t, chunk=Chunk,
                   data=bytearray, end=Py_ssize_t, size=Py_ssize_t, offset=Py_ssize_t,
                   start=Py_ssize_t)
    cdef Py_ssize_t place_lines(self, PublishedLines lines, Py_ssize_t first) except -1
    @cython.locals(run=Run, chunk=Chunk, size=Py_ssize_t)
    cdef Chunk _chunk_for(self, unsigned long long seq, Py_ssize_t length)
    @cython.locals(row=Py_ssize_t, run=Run, chunk=Chunk)
    cdef long long time_of(self, unsigned long long seq) except? -1
    @cython.locals(chunk=Chunk, data=bytearray)
    cdef bint view_at(
        self, MessageView view, Run run, unsigned long long offset, unsigned long long size,
        Py_ssize_t number
    ) except -1
    @cython.locals(chunk=Chunk, left=Py_ssize_t)
    cdef void run_shrank(self, Py_ssize_t i, Run run, unsigned long long size) except *
    @cython.locals(run=Run, i=Py_ssize_t)
    cpdef bint shrink_next(self) except -1
    @cython.locals(following=Run, before=Run, end="unsigned long long", old=Chunk, new=Chunk,
                   merged=Chunk, seq="unsigned long long", row=Py_ssize_t,
                   offset=Py_ssize_t, length=Py_ssize_t, left=Py_ssize_t)
    cdef void _shrink(self, Py_ssize_t i, Run run, Py_ssize_t left) except *
