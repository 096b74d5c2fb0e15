# C types for outbound.py.

cimport cython

from midge.protocol cimport digits, memory
from midge.protocol.frame cimport Frame
from midge.server.routing.outbound cimport ChunkPool, Outbound

cdef int _SPACE
cdef bytes _WITH_REPLY, _WITHOUT_REPLY, BLOCK_VERB
cdef int _CR, _LF
cdef bytes _MSG
cdef Py_ssize_t _BLOCK_HEAD, _BLOCK_MAX, _MSG_LINE_BYTES, _SIZE_BYTES, _NO_BLOCK


@cython.final
cdef class Heads:
    cdef readonly bytes plain
    cdef readonly bytes with_headers


cdef class LinkOutbound(Outbound):
    cdef bytes _announced
    cdef Py_ssize_t _block
    cdef Py_ssize_t _block_number
    cdef Py_ssize_t _block_count
    cdef Py_ssize_t _block_size
    cdef Py_ssize_t _block_end

    cpdef void announce(self, bytes line) except *
    @cython.locals(subject_length=Py_ssize_t, length=Py_ssize_t)
    cpdef void append_in_block(self, Frame frame, Py_ssize_t number, bytes sid) except *
    @cython.locals(data="unsigned char *", at=Py_ssize_t, length=Py_ssize_t)
    cpdef void append_parts_in_block(
        self, Py_ssize_t number, bytes sid, bytes subject, bytes payload
    ) except *
    cdef void _continue_block(self, Py_ssize_t number, Py_ssize_t length) except *
    cdef void _begin_block(self, Py_ssize_t number, Py_ssize_t length) except *
    @cython.locals(at=Py_ssize_t)
    cdef void _end_block(self) except *
    @cython.locals(data="unsigned char *", i=Py_ssize_t)
    cdef void _put(self, Py_ssize_t at, Py_ssize_t number) except *
    cdef bytearray _taken_chunk(self)
    cdef bint _forget_chunk(self) except -1
    @cython.locals(verb=bytes, base=Py_ssize_t, subject_length=Py_ssize_t, length=Py_ssize_t,
                   data="unsigned char *", at=Py_ssize_t)
    cpdef Py_ssize_t append_plain(self, Frame frame, Heads heads) except -1
    @cython.locals(verb=bytes, names=bytes, sign=bytes, base=Py_ssize_t,
                   subject_length=Py_ssize_t, reply_length=Py_ssize_t, sizes=Py_ssize_t,
                   head_length=Py_ssize_t, length=Py_ssize_t, data="unsigned char *",
                   at=Py_ssize_t)
    cpdef Py_ssize_t append_with_queues(
        self, Frame frame, Heads heads, list queues
    ) except -1
    @cython.locals(reply=bytes, words=list)
    cpdef void append_from_leaf(self, Frame frame, bytes head, list queues) except *
    @cython.locals(length=Py_ssize_t, at=Py_ssize_t, left=Py_ssize_t, size=Py_ssize_t)
    cpdef void append_as_it_lies(self, Frame frame, Py_ssize_t count) except *
    @cython.locals(base=Py_ssize_t, last=Py_ssize_t, body=Py_ssize_t,
                   data="unsigned char *", at=Py_ssize_t, length=Py_ssize_t, start=Py_ssize_t)
    cpdef void append_run_over(
        self, Frame frame, Heads heads, Py_ssize_t count, list queues
    ) except *
