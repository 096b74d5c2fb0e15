cimport cython

from midge.jetstream.config cimport names
from midge.jetstream.config.consumer_config cimport ConsumerConfig
from midge.jetstream.consumer.ack_tracker cimport AckTracker
from midge.jetstream.consumer.consumer cimport Consumer
from midge.jetstream.consumer.consumer_host cimport ConsumerHost
from midge.jetstream.consumer.receivers cimport Receivers
from midge.jetstream.environment.sink cimport Receiver
from midge.jetstream.store.interface cimport MessageView

cdef long long _SECOND_NS


cdef class DeliverSubject(Receivers):
    cdef Consumer _consumer
    cdef readonly bytes subject
    cdef public bint is_active
    cdef bint has_flow_control
    cdef public long long window_bytes, outstanding_bytes, flow_bytes
    cdef readonly bytes flow_reply
    cdef object _interest, _heartbeat_timer
    cdef long long _heartbeat_ns, _heartbeat_due_ns
    cdef Receiver _receiver
    cdef unsigned long long _receiver_turn

    cdef void _watch_interest(self, ConsumerConfig config) except *
    cdef void _unwatch_interest(self) except *
    cdef void _arm_heartbeat(self, long long delay_ns) except *
    @cython.locals(receiver=Receiver, host=ConsumerHost)
    cdef Receiver next_receiver(self, MessageView view)
    @cython.locals(acks=AckTracker)
    cdef void _count_bytes(self, Py_ssize_t size) except *
    cpdef void _ask_for_flow(self) except *
