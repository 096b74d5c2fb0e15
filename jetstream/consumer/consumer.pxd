# C types for consumer.py.

cimport cython

from midge.jetstream.config.consumer_config cimport ConsumerConfig
from midge.jetstream.consumer.delivering cimport Delivering
from midge.jetstream.consumer.host cimport ConsumerHost
from midge.jetstream.consumer.start cimport Start, start_of
from midge.jetstream.store.store cimport Store
from midge.sublist.subscription cimport Subscription

cdef long long _SECOND_NS
cdef unsigned long long _STALE


cdef class FilterSubscription(Subscription):
    cdef readonly Consumer owner
    cdef readonly FilterSubscription before

    cpdef object owned_by(self)


cdef class Consumer(Delivering):
    cdef public FilterSubscription enrolled
    cdef readonly long long paused_until_ns
    cdef object _pause_timer
    cdef unsigned long long _removals

    cdef void _begin_consumer(
        self, ConsumerHost host, ConsumerConfig config, bytes name
    ) except *
    cpdef void start(self) except *
    cpdef void stop(self) except *
    cpdef void release(self) except *
    cpdef void watch_activity(self) except *
    cpdef bint is_push_bound(self) except -1
    cpdef Py_ssize_t num_waiting(self) except -1
    cpdef void settle_counts(self) except *
    cdef void _arm_pause_timer(self) except *
    @cython.locals(start=Start)
    cpdef void place_at_start(self) except *
    cpdef bint is_paused(self) except -1
    cpdef void stored(self, unsigned long long seq) except *
    cpdef void disk_answered(self) except *
    @cython.locals(visible="unsigned long long", upto="unsigned long long",
                   count="unsigned long long")
    cpdef void count_pending(self) except *
    @cython.locals(store=Store, visible="unsigned long long")
    cdef bint _is_more_coming(self) except -1
    @cython.locals(store=Store, visible="unsigned long long")
    cdef unsigned long long _count_coming(self) except? 0
    cdef bint _is_counted(self) noexcept
