cimport cython

from midge.protocol cimport lines, memory
from midge.protocol.frame cimport Frame
from midge.server.routing cimport plain_socket

cdef int _SPACE, _CR, _LF
cdef Py_ssize_t _CHUNK_BYTES, _CHUNKS_KEPT
cdef bytes _MSG, _HMSG
cdef bytearray _NOTHING


cdef class ChunkPool:
    cdef bytearray _last
    cdef list _free

    @cython.locals(chunk=bytearray)
    cpdef bytearray take(self)
    cpdef void give_back(self, bytearray chunk) except *


cdef class Outbound:
    cdef readonly bint behind
    cdef int _descriptor
    cdef ChunkPool _pool
    cdef object _transport
    cdef Py_ssize_t _transport_bytes
    cdef object _queue
    cdef Py_ssize_t _queued_bytes
    cdef bytearray _chunk
    cdef unsigned char *_data
    cdef Py_ssize_t _capacity, _used

    cpdef void attach(self, object transport, int descriptor=*) except *
    cpdef void detach(self) except *
    cpdef Py_ssize_t pending_bytes(self)
    @cython.locals(before=Py_ssize_t)
    cpdef bint has_shrunk(self) except -1
    @cython.locals(length=Py_ssize_t)
    cpdef void append(self, bytes piece) except *
    @cython.locals(verb=bytes, base=Py_ssize_t, subject=Py_ssize_t, subject_end=Py_ssize_t,
                   tail=Py_ssize_t, end=Py_ssize_t, length=Py_ssize_t, data="unsigned char *",
                   at=Py_ssize_t)
    cpdef bint append_message(self, Frame frame, bytes sid) except -1  # `except *` takes a call
    @cython.locals(length=Py_ssize_t, target="unsigned char *", at=Py_ssize_t)
    cdef void append_parts(
        self, const unsigned char *head, Py_ssize_t head_end, const unsigned char *data,
        Py_ssize_t start, Py_ssize_t end
    ) except *
    @cython.locals(base=Py_ssize_t, verb=bytes, prefix_length=Py_ssize_t, tail_length=Py_ssize_t,
                   length=Py_ssize_t, last=Py_ssize_t, data="unsigned char *", at=Py_ssize_t,
                   start=Py_ssize_t)
    cpdef void append_run(self, Frame frame, bytes sid, Py_ssize_t count) except *
    cpdef bint flush(self) except -1
    cpdef void caught_up(self) except *
    cpdef void finish(self) except *
    cdef bint _make_room(self, Py_ssize_t length) except -1
    @cython.locals(chunk=bytearray, sent=Py_ssize_t)
    cdef void _write_chunk(self) except *
    cdef void _pass_on(self, bytearray chunk, Py_ssize_t start) except *
    cdef bint _fill(self, bytearray chunk) except -1
    @cython.locals(left=Py_ssize_t)
    cdef void _write(self, object piece) except *
    cdef bytearray _taken_chunk(self)
    cdef bint _drop_chunk(self) except -1
    cdef bint _forget_chunk(self) except -1
