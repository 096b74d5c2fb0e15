# C types for direct_get.py.

cimport cython

from midge.jetstream.environment.sink cimport Sink
from midge.jetstream.store.interface cimport StoredMessage, StreamStore
from midge.protocol cimport digits, memory

cdef long long _SECOND_NS
cdef bytes _HEAD, _SEQUENCE, _TIME, _END
cdef Py_ssize_t _LOCATION_BYTES
cdef int _CR, _LF, _POINT, _ZERO, _UTC


cdef class DirectGet:
    cdef object _stream
    cdef StreamStore _store
    cdef Sink _sink
    cdef long long _max_bytes
    cdef bytes _names
    cdef bytearray _block
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
    @cython.locals(end=Py_ssize_t)
    cdef bytes _headers(self, StoredMessage message)
    @cython.locals(end=Py_ssize_t)
    cdef bytes _batch_headers(self, StoredMessage message, object pending, object last)
    @cython.locals(own=bytes, own_size=Py_ssize_t, names=bytes, subject=bytes, size=Py_ssize_t,
                   block="unsigned char *", at=Py_ssize_t)
    cdef Py_ssize_t _locate(self, StoredMessage message) except -1
    @cython.locals(second="long long", rest="long long")
    cdef Py_ssize_t _put_time(
        self, unsigned char *block, Py_ssize_t at, long long time_ns
    ) except -1
    cdef void _send(self, bytes reply, StoredMessage message, bytes block) except *
    cdef void _status(self, bytes reply, bytes block) except *
