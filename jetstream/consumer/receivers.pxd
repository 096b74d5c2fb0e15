from midge.jetstream.config.consumer_config cimport ConsumerConfig
from midge.jetstream.environment.sink cimport Receiver
from midge.jetstream.store.interface cimport MessageView


cdef class Receivers:
    cdef readonly bytes header_line

    cdef bint is_open(self) except -1
    cdef Receiver next_receiver(self, MessageView view)
    cdef bytes next_subject(self, Py_ssize_t size)
    cdef void delivered(self, Py_ssize_t size, bint is_taken) except *
    cdef void end_turn(self, bint is_drained, bint is_at_end) except *
    cpdef void follow(self, ConsumerConfig config) except *
    cpdef void start(self) except *
    cpdef void stop(self) except *
    cpdef void release(self) except *
    cpdef void request(self, bytes reply, bytes body) except *
    cpdef long long used_until_ns(self, long long now_ns) except? -1
    cpdef Py_ssize_t num_waiting(self) except -1
    cpdef bint is_bound(self) except -1
    cpdef list priority_groups(self)
