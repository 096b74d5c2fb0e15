cimport cython

from midge.jetstream.config.consumer_config cimport ConsumerConfig
from midge.jetstream.consumer.ack_subject cimport AckNumbers
from midge.jetstream.consumer.ack_tracker cimport AckTracker
from midge.jetstream.consumer.deliverer cimport Deliverer
from midge.jetstream.consumer.consumer_host cimport ConsumerHost
from midge.jetstream.consumer.consumer_log cimport ConsumerLog
from midge.jetstream.consumer.pending cimport Entry
from midge.jetstream.consumer.position cimport Start, start_of
from midge.jetstream.store.store cimport Store
from midge.sublist.subscription cimport Subscription

cdef long long _SECOND_NS, _MILLISECOND_NS
cdef int _NEXT, _NAK, _PROGRESS


cdef class FilterSubscription(Subscription):
    cdef readonly Consumer owner
    cdef readonly FilterSubscription before

    cpdef object owned_by(self)


cdef class Consumer(Deliverer):
    cdef public FilterSubscription enrolled
    cdef object _pause_timer
    cdef public long long last_active_ns
    cdef long long _threshold_ns
    cdef object _inactive_timer

    cpdef void follow(self, ConsumerConfig config) except *
    cpdef void save(self) except *
    @cython.locals(start=Start)
    cpdef void place_at_start(self) except *
    @cython.locals(acks=AckTracker)
    cpdef void start(self) except *
    @cython.locals(log=ConsumerLog)
    cpdef void stop(self) except *
    cpdef void end(self) except *
    cpdef void stored(self, unsigned long long seq) except *
    @cython.locals(acks=AckTracker, was_full=bint)
    cpdef void removed(self, unsigned long long seq) except *
    @cython.locals(store=Store)
    cdef void _signal_room(self) except *
    @cython.locals(acks=AckTracker, first=Entry, lowest="unsigned long long")
    cpdef unsigned long long lowest_seq(self) except? 0
    cpdef void request(self, bytes reply, bytes body) except *
    @cython.locals(numbers=AckNumbers, was_full=bint, kind=int)
    cpdef void ack(self, bytes subject, bytes reply, bytes body) except *
    @cython.locals(was_full=bint)
    cpdef void ack_plainly(self, AckNumbers numbers, bytes reply) except *
    cpdef void touch(self) except *
    cdef void _watch_activity(self) except *
    cdef void _look_again(self, long long delay_ns) except *
    cdef void _arm_pause_timer(self) except *
