# C types for direct_get.py.

cimport cython

from midge.jetstream.environment.sink cimport Sink
from midge.jetstream.store.interface cimport StoredMessage, StreamStore

cdef long long _SECOND_NS


cdef class DirectGet:
    cdef object _stream
    cdef StreamStore _store
    cdef Sink _sink
    cdef long long _max_bytes
    cdef bytes _name
    cdef long long _second
    cdef bytes _second_text

    cpdef void get(self, bytes reply, bytes body) except *
    cpdef void get_last(self, bytes reply, bytes subject, bytes body) except *
    @cython.locals(seq="unsigned long long")
    cdef void _answer(self, bytes reply, object request) except *
    @cython.locals(visible="unsigned long long")
    cdef void _answer_last(self, bytes reply, object request, bytes subject) except *
    cdef void _in_turns(self, bytes reply, object pieces) except *
    @cython.locals(message=StoredMessage)
    cdef void _answer_one(self, bytes reply, object request, unsigned long long seq) except *
    cdef StoredMessage _next(self, tuple filters, unsigned long long seq)
    cdef StoredMessage _load(self, unsigned long long seq)
    cdef bytes _headers(self, StoredMessage message)
    cdef bytes _batch_headers(self, StoredMessage message, object pending, object last)
    cdef bytes _located(self, StoredMessage message)
    @cython.locals(second="long long", rest="long long")
    cdef bytes _time(self, long long time_ns)
    cdef void _send(self, bytes reply, StoredMessage message, bytes block) except *
    cdef void _status(self, bytes reply, bytes block) except *
