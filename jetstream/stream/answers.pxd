# C types for answers.py.

cimport cython

from midge.jetstream.environment.sink cimport Sink
from midge.jetstream.store.interface cimport StreamStore


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Answer:
    cdef readonly bytes subject
    cdef readonly bytes headers
    cdef readonly bytes payload
    cdef readonly bint is_ack


@cython.final
cdef class Answers:
    cdef public Sink sink
    cdef StreamStore _store
    cdef bint _is_immediate
    cdef unsigned long long _group
    cdef list _open
    cdef list _waiting

    @cython.locals(answer=Answer, answers=list)
    cpdef void send(self, bytes subject, bytes headers, bytes payload, bint is_ack) except *
    @cython.locals(answer=Answer, answers=list, waiting=list)
    cpdef void fail(self, bytes refusal) except *
    @cython.locals(answer=Answer, first=list)
    cpdef void _release(self, list answers) except *
