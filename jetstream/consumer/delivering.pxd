# C types for delivering.py.

cimport cython

from midge.jetstream.config.consumer_config cimport ConsumerConfig
from midge.jetstream.consumer.ack_subject cimport AckSubject
from midge.jetstream.consumer.host cimport ConsumerHost
from midge.jetstream.consumer.pending cimport Entry
from midge.jetstream.consumer.tracking cimport Tracking
from midge.jetstream.environment.sink cimport Receiver
from midge.jetstream.headers cimport add_lines
from midge.jetstream.store.interface cimport MessageView, StoredMessage

cdef Py_ssize_t _MESSAGE_COST
cdef int _NO_ACKS
cdef long long _SECOND_NS


cdef class Delivering(Tracking):
    cdef readonly tuple filters
    cdef readonly bint headers_only
    cdef readonly bint is_ready
    cdef public long long num_pending
    cdef public unsigned long long counted_seq
    cdef unsigned long long _passed_seq
    cdef AckSubject _ack_subject
    cdef object _pace
    cdef object _hold_timer
    cdef unsigned long long _held_seq
    cdef unsigned long long _turn
    cdef bint _is_at_limit
    cdef bint _adds_headers
    cdef bint _is_fetching

    cdef void _begin_delivering(
        self, ConsumerHost host, ConsumerConfig config, bytes name
    ) except *
    @cython.locals(spent=Py_ssize_t, cost=Py_ssize_t)
    cpdef Py_ssize_t deliver(self, Py_ssize_t budget) except -1
    cpdef void fetched(self) except *
    @cython.locals(view=MessageView, ack=AckSubject, visible="unsigned long long",
                   start="unsigned long long",
                   spent=Py_ssize_t, receiver=Receiver, seq="unsigned long long",
                   pending="long long", size=Py_ssize_t, more=Py_ssize_t, found=int)
    cdef Py_ssize_t _deliver_run(self, Py_ssize_t budget) except -1
    @cython.locals(message=StoredMessage)
    cdef Py_ssize_t _deliver_next(self) except -1
    cdef AckSubject _acks(self)
    cdef bint _may_deliver(self) except -1
    cdef bytes _target(self, Py_ssize_t size)
    cdef Receiver _receiver(self)
    cdef void _serve(self) except *
    cdef void _turn_over(self) except *
    cdef void _delivered(self, Py_ssize_t size) except *
    cdef void _not_taken(self, bytes target) except *
    cdef bint _held_back(self, StoredMessage message, Py_ssize_t size) except -1
    cdef bytes _more_headers(self, bytes headers)
    cdef void _drained(self) except *
    @cython.locals(deliveries="unsigned long long", pending="long long", reply=bytes,
                   headers=bytes, payload=bytes, size=Py_ssize_t, target=bytes, ack=AckSubject)
    cdef Py_ssize_t _hand_over(self, StoredMessage message) except -1
    @cython.locals(consumer_seq="unsigned long long")
    cdef void _note_delivery(
        self, unsigned long long seq, unsigned long long deliveries
    ) except *
    @cython.locals(entry=Entry)
    cdef void _put_back(
        self, unsigned long long seq, unsigned long long deliveries, bint is_first
    ) except *
    @cython.locals(message=StoredMessage, visible="unsigned long long",
                   start="unsigned long long", seq="unsigned long long")
    cdef StoredMessage _next_message(self)
    cdef bint _is_at_hand(self, unsigned long long seq) except -1
    @cython.locals(upto="unsigned long long", seq="unsigned long long", message=StoredMessage)
    cdef StoredMessage _next_last(self)
    cdef void _recount(self) except *
