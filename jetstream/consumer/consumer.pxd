# C types for consumer.py.

cimport cython

from midge.jetstream.consumer.ack_subject cimport AckSubject
from midge.jetstream.consumer.pending cimport Entry
from midge.jetstream.consumer.tracking cimport Tracking
from midge.jetstream.store.interface cimport StoredMessage

cdef long long _SECOND_NS
cdef unsigned long long _STALE


cdef class Consumer(Tracking):
    cdef readonly tuple filters
    cdef readonly bint headers_only
    cdef readonly long long paused_until_ns
    cdef public long long created_ns
    cdef readonly bint is_ready
    cdef public long long num_pending
    cdef public unsigned long long counted_seq
    cdef public unsigned long long last_per_subject_upto
    cdef AckSubject _ack_subject
    cdef object _pause_timer
    cdef object _pace
    cdef object _hold_timer
    cdef unsigned long long _held_seq
    cdef unsigned long long _turn
    cdef bint _is_at_limit
    cdef unsigned long long _removals

    cpdef bint is_paused(self) except -1
    cpdef void stored(self, unsigned long long seq) except *
    @cython.locals(spent=Py_ssize_t, cost=Py_ssize_t, message=StoredMessage)
    cpdef Py_ssize_t deliver(self, Py_ssize_t budget) except -1
    cdef bint _may_deliver(self) except -1
    cdef bytes _target(self, Py_ssize_t size)
    cdef void _delivered(self, bytes target, Py_ssize_t size) except *
    cdef void _not_taken(self, bytes target) except *
    cdef bint _held_back(self, StoredMessage message, Py_ssize_t size) except -1
    cdef bytes _more_headers(self, bytes headers)
    cdef void _drained(self) except *
    @cython.locals(deliveries="unsigned long long", pending="long long", reply=bytes,
                   headers=bytes, payload=bytes, size=Py_ssize_t, target=bytes)
    cdef Py_ssize_t _hand_over(self, StoredMessage message) except -1
    @cython.locals(consumer_seq="unsigned long long")
    cdef void _note_delivery(
        self, unsigned long long seq, unsigned long long deliveries
    ) except *
    @cython.locals(entry=Entry)
    cdef void _put_back(
        self, unsigned long long seq, unsigned long long deliveries, bint is_first
    ) except *
    @cython.locals(message=StoredMessage, visible="unsigned long long")
    cdef StoredMessage _next_message(self)
    @cython.locals(upto="unsigned long long", seq="unsigned long long", message=StoredMessage)
    cdef StoredMessage _next_last(self)
    @cython.locals(visible="unsigned long long", upto="unsigned long long",
                   count="unsigned long long")
    cpdef void count_pending(self) except *
    cdef void _recount(self) except *


cpdef bytes with_header(bytes headers, bytes line)
