# C types for stream.py.

cimport cython

from midge.jetstream.consumer.consumer_set cimport ConsumerSet
from midge.jetstream.sink cimport Sink
from midge.jetstream.store.interface cimport StreamStore
from midge.jetstream.stream cimport ack_text
from midge.jetstream.stream.answers cimport Answers
from midge.jetstream.stream.audience cimport Audience
from midge.jetstream.stream.backlog cimport Backlog
from midge.jetstream.stream.contents cimport Contents
from midge.jetstream.stream.dedup cimport Dedup
from midge.jetstream.stream.header_scan cimport HeaderScan
from midge.jetstream.stream.incoming cimport Incoming
from midge.jetstream.stream.usage cimport Usage
from midge.jetstream.ticks cimport Ticks, ticks_of
from midge.protocol cimport memory
from midge.protocol.frame cimport Frame

cdef int _HEADERS_MAX, _LAST_OF_FAST_BATCH, _NOTHING, _OTHERS
cdef long long _SECOND_NS
cdef bytes _NO_BYTES, _OVERLOADED


cdef class Stream:
    cdef readonly StreamStore store
    cdef readonly object surroundings
    cdef readonly Usage usage
    cdef public long long created_ns
    cdef readonly Sink sink
    cdef readonly object clock
    cdef Ticks _ticks
    cdef public long long max_payload
    cdef readonly bytes name
    cdef readonly bint is_memory
    cdef readonly Answers answers
    cdef readonly Dedup dedup
    cdef readonly Audience audience
    cdef HeaderScan _scan
    cdef readonly ConsumerSet consumers
    cdef readonly Contents contents
    cdef readonly Backlog backlog
    cdef readonly set followers
    cdef public bytes last_msg_id
    cdef public long long now_ns
    cdef public long long skipped_ns
    cdef public bint is_closed
    cdef readonly bytes ack_head
    cdef readonly object expiry
    cdef readonly object schedules
    cdef readonly object atomic_batches
    cdef readonly object fast_batches
    cdef public object republisher
    cdef readonly object events
    cdef public object direct_get
    cdef public object origins
    cdef public object account
    cdef public object config
    cdef public list subjects
    cdef public bint is_mirror
    cdef public bint is_sealed
    cdef public bint allows_rollup
    cdef public object transform
    cdef public bint acks
    cdef bint _is_interest
    cdef bint _is_plain
    cdef public bint is_expiry_armed

    @cython.locals(seq="unsigned long long", reply=bytes, found=int)
    cpdef void publish_frame(self, Frame frame, long long now_ns=*) except *
    @cython.locals(start=Py_ssize_t)
    cdef int _look_at(self, Frame frame) except -1
    cdef unsigned long long _append(self, Frame frame) except? 0
    @cython.locals(msg_id=bytes, known="unsigned long long", seq="unsigned long long", reply=bytes)
    cdef unsigned long long _append_once(self, Frame frame) except? 0
    cpdef void publish(
        self, bytes subject, bytes reply, bytes headers_of, bytes payload
    ) except *
    @cython.locals(message=Incoming, values=dict)
    cdef void _publish(
        self, bytes subject, bytes reply, bytes headers_of, bytes payload
    ) except *
    @cython.locals(seq="unsigned long long")
    cpdef bint take(self, Incoming message) except -1
    cdef bint _check(self, Incoming message) except -1
    cpdef unsigned long long store_checked(self, Incoming message) except? 0
    cpdef unsigned long long store_message(self, Incoming message) except? 0
    @cython.locals(subject=bytes, seq="unsigned long long", before="unsigned long long")
    cdef unsigned long long _store(self, Incoming message) except? 0
    cdef void _remember(self, Incoming message, unsigned long long seq) except *
    cpdef _read_ttl(self, Incoming message)
    @cython.locals(scheduler=bytes)
    cdef void _roll_up(self, Incoming message, Py_ssize_t keep) except *
    cdef void _stored(self, unsigned long long seq, long long size) except *
    cdef void _overload(self, bytes reply) except *
    @cython.locals(body=bytes)
    cpdef void acknowledge(self, Incoming message, unsigned long long seq, bytes tail) except *
    cdef bytes _ack_tail(self, Incoming message)
    cpdef void refuse(self, Incoming message, object error) except *
    cdef void _refuse(self, bytes reply, object error) except *
