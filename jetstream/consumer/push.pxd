# C types for push.py.

cimport cython

from midge.jetstream.config cimport names
from midge.jetstream.config.consumer_config cimport ConsumerConfig
from midge.jetstream.consumer.consumer cimport Consumer
from midge.jetstream.environment.sink cimport Receiver

cdef long long _SECOND_NS


cdef class PushConsumer(Consumer):
    cdef readonly bytes deliver_subject
    cdef public bint is_active
    cdef public long long window_bytes
    cdef public long long outstanding_bytes
    cdef public long long flow_bytes
    cdef readonly bytes flow_reply
    cdef object _interest
    cdef object _heartbeat_timer
    cdef long long _heartbeat_ns
    cdef long long _heartbeat_due_ns
    cdef object _inactive_timer
    cdef Receiver _found_receiver
    cdef unsigned long long _receiver_turn

    cdef void _watch_interest(self) except *
    cdef void _unwatch_interest(self) except *
    cdef void _arm_heartbeat(self, long long delay_ns) except *
    @cython.locals(receiver=Receiver)
    cdef Receiver _receiver(self)
    cdef void _count_bytes(self, Py_ssize_t size) except *
