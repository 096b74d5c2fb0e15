# C types for sink.py.


cdef class Sink:
    cpdef Py_ssize_t send(
        self, bytes subject, bytes reply, bytes headers, bytes payload
    ) except -1
    cpdef bint deliver(
        self, bytes deliver_subject, bytes message_subject, bytes reply, bytes headers,
        bytes payload
    ) except -1
    cpdef bint has_interest(self, bytes subject) except -1
    cpdef bint is_subscribed(self, bytes subject, bytes group) except -1
    cpdef object watch_interest(self, bytes subject, object changed, bytes group)
    cpdef object unwatch_interest(self, object token)
