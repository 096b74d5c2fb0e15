# C types for progress.py.

cimport cython

from midge.jetstream.config.consumer_config cimport ConsumerConfig
from midge.jetstream.consumer.pending cimport Entry, Pending
from midge.jetstream.environment.sink cimport Sink
from midge.jetstream.store.store cimport Store

cdef dict _NO_COUNTS


cdef class Progress:
    cdef readonly Store store
    cdef readonly Sink sink
    cdef readonly object clock
    cdef readonly ConsumerConfig config
    cdef readonly bytes name
    cdef public long long created_ns
    cdef readonly long long ack_wait_ns
    cdef public long long last_delivery_ns
    cdef public long long last_ack_ns
    cdef readonly Pending pending
    cdef readonly dict redelivered
    cdef public unsigned long long last_per_subject_upto
    cdef public bint is_taken_up
    cdef public unsigned long long next_seq
    cdef public unsigned long long next_consumer_seq
    cdef public unsigned long long floor_seq
    cdef public unsigned long long floor_consumer_seq
    cdef public unsigned long long shown_floor_seq
    cdef public unsigned long long shown_floor_consumer_seq
    cdef public unsigned long long delivered_seq
    cdef public unsigned long long delivered_consumer_seq

    cdef void _begin(
        self, Store store, Sink sink, object clock, ConsumerConfig config, bytes name
    ) except *
    cpdef void stand_before(self, unsigned long long seq) except *
    cpdef void count_again(self, unsigned long long seq, long long count) except *
    @cython.locals(after=Entry)
    cdef void _move_floor(self, Entry entry) except *
    @cython.locals(after=Entry)
    cdef void _move_shown_floor(self, Entry entry) except *


cpdef list waits_of(ConsumerConfig config)
