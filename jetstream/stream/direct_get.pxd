cimport cython

from midge.jetstream.environment.sink cimport Sink
from midge.jetstream.store.interface cimport MessageView
from midge.jetstream.store.store cimport Store
from midge.protocol cimport digits, memory
from midge.sublist.subjects cimport is_literal

cdef long long _SECOND_NS
cdef bytes _HEAD, _SEQUENCE, _TIME, _END, _PENDING, _LAST
cdef Py_ssize_t _LOCATION_BYTES
cdef int _CR, _LF, _POINT, _ZERO, _UTC


cdef class DirectGet:
    cdef object _stream
    cdef Store _store
    cdef Sink _sink
    cdef long long _max_bytes
    cdef MessageView _view
    cdef object _fetch
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
    cdef void _answer_one(self, bytes reply, object request, unsigned long long seq) except *
    cdef void _answer_now(self, bytes reply, object request, unsigned long long seq) except *
    @cython.locals(visible="unsigned long long")
    cdef int _try_next(self, tuple filters, unsigned long long seq, object fetch) except -2
    cdef bint _show(self, unsigned long long seq) except -1
    @cython.locals(end=Py_ssize_t)
    cdef Py_ssize_t _put_headers(self) except -1
    @cython.locals(block="unsigned char *", at=Py_ssize_t)
    cdef Py_ssize_t _put_batch_headers(
        self, unsigned long long pending, unsigned long long last
    ) except -1
    @cython.locals(view=MessageView, own_size=Py_ssize_t, names=bytes, subject_size=Py_ssize_t,
                   size=Py_ssize_t, block="unsigned char *", at=Py_ssize_t)
    cdef Py_ssize_t _locate(self) except -1
    @cython.locals(second="long long", rest="long long")
    cdef Py_ssize_t _put_time(
        self, unsigned char *block, Py_ssize_t at, long long time_ns
    ) except -1
    cdef void _send(self, bytes reply, Py_ssize_t head_end) except *
    cdef void _status(self, bytes reply, bytes block) except *
