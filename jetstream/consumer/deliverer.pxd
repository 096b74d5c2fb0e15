cimport cython

from midge.jetstream.config.consumer_config cimport ConsumerConfig
from midge.jetstream.consumer.ack_subject cimport AckSubject
from midge.jetstream.consumer.ack_tracker cimport AckTracker
from midge.jetstream.consumer.consumer_host cimport ConsumerHost
from midge.jetstream.consumer.receivers cimport Receivers
from midge.jetstream.environment.sink cimport Receiver
from midge.jetstream.headers cimport add_lines
from midge.jetstream.store.interface cimport MessageView, LoadedMessage
from midge.jetstream.store.store cimport Store

cdef Py_ssize_t _MESSAGE_COST
cdef long long _ACK_TIMER_SLACK_NS, _SECOND_NS


cdef class Deliverer:
    cdef readonly ConsumerHost host
    cdef readonly AckTracker acks
    cdef public Receivers receivers
    cdef readonly bint headers_only, is_ready
    cdef public bint asks_for_one
    cdef readonly bint is_closed, is_fetching
    cdef bint _is_at_limit, _was_fetched
    cdef readonly long long paused_until_ns
    cdef AckSubject _ack_subject
    cdef object _pace, _hold_timer
    cdef unsigned long long _held_seq
    cdef object _ack_timer
    cdef long long _ack_timer_ns

    cpdef void signal(self) except *
    cpdef void fetched(self) except *
    cpdef bint is_paused(self) except -1
    cdef bint _may_deliver(self) except -1
    @cython.locals(receivers=Receivers, spent=Py_ssize_t, cost=Py_ssize_t)
    cpdef Py_ssize_t deliver(self, Py_ssize_t budget) except -1
    @cython.locals(acks=AckTracker, host=ConsumerHost, receivers=Receivers, view=MessageView,
                   ack=AckSubject, visible="unsigned long long", start="unsigned long long",
                   spent=Py_ssize_t, receiver=Receiver, seq="unsigned long long",
                   pending="long long", size=Py_ssize_t, more=Py_ssize_t, found=int)
    cdef Py_ssize_t _deliver_run(self, Py_ssize_t budget) except -1
    cdef AckSubject _acks(self)
    @cython.locals(message=LoadedMessage, acks=AckTracker, receivers=Receivers,
                   deliveries="unsigned long long", pending="long long", is_counted=bint,
                   reply=bytes, headers=bytes, payload=bytes, size=Py_ssize_t, subject=bytes,
                   ack=AckSubject)
    cdef Py_ssize_t _deliver_next(self) except -1
    @cython.locals(due_ns="long long")
    cdef void _note_delivery(self, unsigned long long seq) except *
    cdef bint _held_back(self, LoadedMessage message, Py_ssize_t size) except -1
    @cython.locals(acks=AckTracker, store=Store, message=LoadedMessage,
                   visible="unsigned long long", start="unsigned long long",
                   seq="unsigned long long")
    cdef LoadedMessage _next_message(self)
    cdef bint _is_cached(self, unsigned long long seq) except -1
    @cython.locals(acks=AckTracker, store=Store, upto="unsigned long long",
                   seq="unsigned long long", message=LoadedMessage)
    cdef LoadedMessage _next_last(self)
    @cython.locals(due_ns="long long")
    cpdef void watch_acks(self) except *
    cdef void _arm_ack_timer(self, long long due_ns) except *
