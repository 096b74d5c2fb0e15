cimport cython

from midge.jetstream.store.interface cimport MessageView
from midge.protocol cimport memory


cdef class Receiver:
    cdef readonly Py_ssize_t subject_size

    cpdef bint is_current(self) except -1
    cpdef bint is_open(self, MessageView message) except -1
    cpdef void take(self, MessageView message, bytearray reply, Py_ssize_t reply_end) except *


cdef class Sink:
    cpdef Py_ssize_t send(self, bytes subject, bytes reply, bytes headers, bytes payload) except -1
    @cython.locals(headers=bytes, payload=bytes)
    cpdef Py_ssize_t send_stored(
        self, bytes subject, bytearray head, Py_ssize_t head_end, MessageView message
    ) except -1
    cpdef bint deliver(
        self, bytes deliver_subject, bytes message_subject, bytes reply, bytes headers,
        bytes payload
    ) except -1
    cpdef Receiver receiver(self, bytes subject)
    cpdef bint has_interest(self, bytes subject) except -1
    cpdef bint is_subscribed(self, bytes subject, bytes group) except -1
    cpdef object watch_interest(self, bytes subject, object changed, bytes group)
    cpdef object unwatch_interest(self, object token)
