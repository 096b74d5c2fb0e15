cimport cython

from midge.server.jetstream.account_sink cimport AccountSink


cdef class Audit:
    cdef object _context
    cdef AccountSink _sink
    cdef object _new_id

    cpdef void answered(self, object request, bytes answer) except *


@cython.final
cdef class Answering:
    cdef AccountSink _sink
    cdef Audit _audit
    cdef object _request

    @cython.locals(reply=bytes)
    cpdef void respond(self, bytes answer, bytes headers=*) except *
    @cython.locals(reply=bytes)
    cpdef bint is_wanted(self) except -1
    cpdef object client(self)
