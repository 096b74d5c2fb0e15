cimport cython

from midge.jetstream.config.consumer_config cimport ConsumerConfig
from midge.jetstream.consumer.consumer_host cimport ConsumerHost
from midge.jetstream.consumer.pending cimport Entry, Pending
from midge.jetstream.store.store cimport Store

cdef dict _NO_COUNTS
cdef unsigned long long _STALE


cdef class Position:
    cdef readonly ConsumerHost host
    cdef public ConsumerConfig config
    cdef readonly bytes name
    cdef public tuple filters
    cdef public long long created_ns, last_delivery_ns, last_ack_ns
    cdef readonly Pending pending
    cdef readonly dict redelivered
    cdef public long long num_pending
    cdef public unsigned long long counted_seq, passed_seq, removals, last_per_subject_upto
    cdef public unsigned long long next_seq, next_consumer_seq, floor_seq, floor_consumer_seq
    cdef public unsigned long long shown_floor_seq, shown_floor_consumer_seq, delivered_seq
    cdef public unsigned long long delivered_consumer_seq
    cdef public bint is_taken_up

    cpdef void reset_to(self, unsigned long long seq) except *
    cpdef void count_again(self, unsigned long long seq, long long count) except *
    @cython.locals(after=Entry)
    cdef void _move_floor(self, Entry entry) except *
    @cython.locals(after=Entry)
    cdef void _move_shown_floor(self, Entry entry) except *
    cdef bint stored(self, unsigned long long seq) except -1
    cdef void mark_stale(self) noexcept
    cdef void uncount(self, unsigned long long seq) except *
    @cython.locals(store=Store, visible="unsigned long long", upto="unsigned long long",
                   count="unsigned long long")
    cpdef void count_pending(self) except *
    cpdef void recount(self) except *
    cdef bint _is_counted(self) noexcept
    @cython.locals(store=Store, visible="unsigned long long")
    cdef bint is_more_coming(self) except -1
    @cython.locals(store=Store, visible="unsigned long long")
    cdef unsigned long long count_coming(self) except? 0


cpdef list waits_of(ConsumerConfig config)


@cython.final
cdef class Start:
    cdef readonly unsigned long long seq, last_per_subject_upto


@cython.locals(start=Start, first="unsigned long long", last="unsigned long long",
               seq="unsigned long long")
cpdef Start start_of(ConsumerConfig config, Store store, long long max_msgs_per_subject)

@cython.locals(policy=str)
cdef Start _chosen(ConsumerConfig config, Store store, long long max_msgs_per_subject)
