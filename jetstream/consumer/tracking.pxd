# C types for tracking.py.

cimport cython

from midge.jetstream.config.consumer_config cimport ConsumerConfig
from midge.jetstream.consumer.ack_subject cimport AckNumbers
from midge.jetstream.consumer.events cimport ConsumerEvents
from midge.jetstream.consumer.host cimport ConsumerHost
from midge.jetstream.consumer.log cimport ConsumerLog
from midge.jetstream.consumer.pending cimport Entry
from midge.jetstream.consumer.progress cimport Progress
from midge.jetstream.store.interface cimport StoredMessage
from midge.jetstream.environment.ticks cimport Ticks, ticks_of

cdef long long _ACK_TIMER_SLACK_NS, _SECOND_NS
cdef int _ACK, _NO_ACKS, _ACK_ALL, _ACK_EXPLICIT


cdef class Tracking(Progress):
    cdef readonly ConsumerHost host
    cdef Ticks _ticks
    cdef public ConsumerLog log
    cdef object _ack_timer
    cdef long long _ack_timer_ns
    cdef unsigned long long _deliveries
    cdef long long _now_ns
    cdef long long _wall_ns
    # Flags stand together: a consumer in at most 512 bytes comes from Python's own allocator.
    cdef readonly int ack_policy
    cdef bint _samples
    cdef readonly bint is_closed
    cdef readonly bint keeps_all
    cdef readonly bint has_flow_control
    cdef readonly long long max_deliver
    cdef readonly long long max_ack_pending

    cdef void _begin_tracking(
        self, ConsumerHost host, ConsumerConfig config, bytes name
    ) except *
    cpdef void signal(self) except *
    cpdef void request(self, bytes reply, bytes body) except *
    cpdef void touch(self) except *
    cpdef void follow(self, ConsumerConfig config) except *
    @cython.locals(entry=Entry)
    cpdef void removed(self, unsigned long long seq) except *
    @cython.locals(entry=Entry, after=Entry, count=Py_ssize_t)
    cdef bint _drop_all_purged(self, bint is_wider) except -1
    @cython.locals(entry=Entry)
    cdef void _stop_purged(self) except *
    cdef void _move_purged_floor(self, Entry entry) except *
    cpdef bint takes_acks(self) noexcept
    cpdef bint is_full(self) except -1
    @cython.locals(entry=Entry, due_ns="long long")
    cdef void _track(self, unsigned long long seq, unsigned long long consumer_seq) except *
    @cython.locals(entry=Entry, again="long long", deliveries="long long",
                   seq="unsigned long long", message=StoredMessage)
    cdef StoredMessage _next_again(self)
    cpdef void _arm_ack_timer(self, long long due_ns) except *
    @cython.locals(entry=Entry)
    cdef void _give_up(self, unsigned long long seq) except *
    @cython.locals(numbers=AckNumbers, kind=int, answers=bint, seq="unsigned long long")
    cpdef void ack(self, bytes subject, bytes reply, bytes body) except *
    cpdef void ack_plainly(self, AckNumbers numbers, bytes reply) except *
    @cython.locals(answers=bint)
    cdef void _settle_answered(self, AckNumbers numbers, bytes reply) except *
    cpdef void _answer(self, bytes reply) except *
    @cython.locals(was_full=bint, others=list)
    cdef bint _settle(
        self, unsigned long long seq, unsigned long long consumer_seq,
        unsigned long long deliveries, bytes reply, bint samples
    ) except -1
    @cython.locals(entry=Entry)
    cdef void _settle_one(
        self, unsigned long long seq, unsigned long long consumer_seq,
        unsigned long long deliveries, bint samples
    ) except *
    @cython.locals(entry=Entry)
    cdef list _settle_upto(self, unsigned long long seq, unsigned long long consumer_seq)
    cpdef bint needs_ack(self, unsigned long long seq) except -1
