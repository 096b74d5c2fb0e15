cimport cython

from midge.jetstream.config.consumer_config cimport ConsumerConfig
from midge.jetstream.consumer.ack_subject cimport AckNumbers
from midge.jetstream.consumer.consumer_events cimport ConsumerEvents
from midge.jetstream.consumer.consumer_host cimport ConsumerHost
from midge.jetstream.consumer.consumer_log cimport ConsumerLog
from midge.jetstream.consumer.pending cimport Entry, Pending
from midge.jetstream.consumer.position cimport Position
from midge.jetstream.store.interface cimport LoadedMessage

cdef int _ACK, _NO_ACKS, _ACK_ALL, _ACK_EXPLICIT


cdef class AckTracker(Position):
    cdef public ConsumerLog log
    cdef unsigned long long deliveries
    cdef readonly int ack_policy
    cdef bint _samples
    cdef readonly bint keeps_all

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
    @cython.locals(entry=Entry, pending=Pending, again="long long", now_ns="long long")
    cdef long long _track(self, unsigned long long seq, unsigned long long consumer_seq) except? -1
    @cython.locals(consumer_seq="unsigned long long", due_ns="long long")
    cdef long long delivered(self, unsigned long long seq) except? -1
    @cython.locals(entry=Entry)
    cdef void put_back(
        self, unsigned long long seq, unsigned long long deliveries, bint is_first
    ) except *
    @cython.locals(entry=Entry, again="long long", deliveries="long long",
                   seq="unsigned long long", message=LoadedMessage)
    cdef LoadedMessage next_again(self)
    cpdef void queue_due(self, long long now_ns) except *
    @cython.locals(entry=Entry, after=Entry)
    cpdef void queue_all(self) except *
    @cython.locals(entry=Entry, due_ns="long long")
    cpdef long long last_due_ns(self) except? -1
    @cython.locals(count="long long", most="long long")
    cdef bint _has_max_deliveries(self, unsigned long long seq) except -1
    @cython.locals(entry=Entry)
    cdef void _give_up(self, unsigned long long seq) except *
    @cython.locals(kind=int, answers=bint, seq="unsigned long long")
    cdef int take(self, AckNumbers numbers, bytes reply, bytes body) except -1
    @cython.locals(answers=bint)
    cdef void take_plain(self, AckNumbers numbers, bytes reply) except *
    cpdef void _answer(self, bytes reply) except *
    @cython.locals(others=list)
    cdef bint settle(
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
