cimport cython

from midge.protocol cimport memory
from midge.protocol.stream_parser cimport StreamParser


cdef class SharedBuffer:
    cdef readonly bytearray buffer
    cdef readonly object view
    cdef readonly Py_ssize_t small_rest


@cython.final
cdef class Inbound:
    cdef readonly StreamParser parser
    cdef readonly Py_ssize_t offered, start
    cdef SharedBuffer _shared
    cdef bytes _rest
    cdef bytearray _own
    cdef Py_ssize_t _filled
    cdef bint _is_parsing

    cpdef Py_ssize_t held_bytes(self)
    @cython.locals(buffer=bytearray)
    cpdef object get_buffer(self)
    @cython.locals(own=bytearray, rest=bytes, shared=bytearray)
    cpdef bytearray make_room(self)
    @cython.locals(own=bytearray)
    cpdef bint received(self, Py_ssize_t count) except -1
    cpdef void resume(self) except *
    @cython.locals(used=Py_ssize_t, rest=Py_ssize_t, own=bytearray)
    cdef void _parse(self, bytearray buffer, Py_ssize_t end) except *
