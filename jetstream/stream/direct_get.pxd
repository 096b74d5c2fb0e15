# C types for direct_get.py.

cimport cython

from midge.jetstream.environment.sink cimport Sink
from midge.jetstream.store.interface cimport StoredMessage, StreamStore

cdef long long _SECOND_NS


cdef class DirectGet:
    cdef StreamStore _store
    cdef Sink _sink
    cdef long long _max_bytes
    cdef bytes _name
    cdef long long _second
    cdef bytes _second_text

    cpdef void get(self, bytes reply, bytes body) except *
    @cython.locals(seq="unsigned long long", message=StoredMessage)
    cpdef void get_last(self, bytes reply, bytes subject, bytes body) except *
    @cython.locals(message=StoredMessage)
    cdef void _answer(self, bytes reply, object request) except *
    @cython.locals(seq="unsigned long long", found="unsigned long long")
    cdef StoredMessage _find(self, object request)
    cdef unsigned long long _last_matching(self, bytes subject) except? 0
    cdef StoredMessage _next(self, tuple filters, unsigned long long seq)
    cdef StoredMessage _load(self, unsigned long long seq)
    cdef bytes _headers(self, StoredMessage message)
    cdef bytes _batch_headers(self, StoredMessage message, object pending, object last)
    cdef bytes _located(self, StoredMessage message)
    @cython.locals(second="long long", rest="long long")
    cdef bytes _time(self, long long time_ns)
    cdef void _send(self, bytes reply, StoredMessage message, bytes block) except *
    cdef void _status(self, bytes reply, bytes block) except *
