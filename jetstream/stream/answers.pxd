cimport cython

from midge.jetstream.environment.sink cimport Sink
from midge.jetstream.store.store cimport Store


@cython.final
@cython.no_gc
cdef class WaitingAnswers:
    cdef readonly list subjects, headers, payloads, are_acks

    cdef bint add(self, bytes subject, bytes headers, bytes payload, bint is_ack) except -1


@cython.final
cdef class Answers:
    cdef public Sink sink
    cdef Store _store
    cdef bint _is_immediate
    cdef unsigned long long _group
    cdef WaitingAnswers _open
    cdef list _waiting

    @cython.locals(held=WaitingAnswers)
    cpdef bint send(self, bytes subject, bytes headers, bytes payload, bint is_ack) except -1
    @cython.locals(held=WaitingAnswers, waiting=list)
    cpdef void fail(self, bytes refusal) except *
    @cython.locals(first=WaitingAnswers, subjects=list, headers=list, payloads=list,
                   index=Py_ssize_t)
    cpdef void _release(self, WaitingAnswers held) except *
