# C types for outbound.py.

cimport cython

from midge.protocol cimport memory
from midge.protocol.frame cimport Frame
from midge.server.routing.outbound cimport Outbound

cdef int _SPACE
cdef bytes _WITH_REPLY, _WITHOUT_REPLY


@cython.final
cdef class Heads:
    cdef readonly bytes plain
    cdef readonly bytes with_headers


cdef class LinkOutbound(Outbound):
    @cython.locals(verb=bytes, base=Py_ssize_t, subject_length=Py_ssize_t, length=Py_ssize_t,
                   data="unsigned char *", at=Py_ssize_t)
    cpdef void append_plain(self, Frame frame, Heads heads) except *
    @cython.locals(verb=bytes, names=bytes, sign=bytes, base=Py_ssize_t,
                   subject_length=Py_ssize_t, reply_length=Py_ssize_t, sizes=Py_ssize_t,
                   head_length=Py_ssize_t, length=Py_ssize_t, data="unsigned char *",
                   at=Py_ssize_t)
    cpdef void append_with_queues(self, Frame frame, Heads heads, list queues) except *
    @cython.locals(reply=bytes, words=list)
    cpdef void append_from_leaf(self, Frame frame, bytes head, list queues) except *
    @cython.locals(length=Py_ssize_t, at=Py_ssize_t, left=Py_ssize_t, size=Py_ssize_t)
    cpdef void append_as_it_lies(self, Frame frame, Py_ssize_t count) except *
    @cython.locals(base=Py_ssize_t, i=Py_ssize_t)
    cpdef void append_plain_run(self, Frame frame, Heads heads, Py_ssize_t count) except *
