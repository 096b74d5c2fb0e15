cimport cython

from midge.jetstream.consumer.consumer_set cimport ConsumerSet
from midge.jetstream.environment.sink cimport Sink
from midge.jetstream.environment.ticks cimport Ticks, ticks_of
from midge.jetstream.store.published cimport PublishedLines
from midge.jetstream.store.store cimport Store
from midge.jetstream.stream.answers cimport Answers
from midge.jetstream.stream.contents cimport Backlog, Contents, Dedup, Usage
from midge.jetstream.stream.incoming cimport Incoming

cdef bytes _NO_BYTES


@cython.final
cdef class StreamReaders:
    cdef Store _store
    cdef unsigned long long _announced_seq, _asked_group
    cdef readonly ConsumerSet consumers
    cdef readonly set followers

    cpdef void announce_soon(self) except *
    @cython.locals(store=Store, visible="unsigned long long", seq="unsigned long long",
                   subject=bytes)
    cpdef void announce(self) except *
    cpdef void announce_when_durable(self) except *


cdef class StreamHost:
    cdef readonly Store store
    cdef readonly object surroundings
    cdef readonly Usage usage
    cdef public long long created_ns
    cdef readonly object siblings
    cdef readonly Sink sink
    cdef readonly object clock
    cdef Ticks _ticks
    cdef public long long max_payload
    cdef readonly bytes name
    cdef readonly bint is_memory
    cdef readonly Answers answers
    cdef readonly Dedup dedup
    cdef readonly StreamReaders readers
    cdef readonly ConsumerSet consumers
    cdef readonly Contents contents
    cdef readonly Backlog backlog
    cdef readonly object events
    cdef readonly set followers
    cdef public bytes last_msg_id
    cdef public long long now_ns, skipped_ns
    cdef public bint is_closed, is_expiry_armed
    cdef readonly bytes ack_head
    cdef public object config
    cdef public list subjects
    cdef public bint is_mirror, is_sealed
    cdef readonly bint allows_direct
    cdef public bint allows_rollup, acks
    cdef public object transform

    cpdef bint take(self, Incoming message) except -1
    cpdef unsigned long long store_message(self, Incoming message) except? 0
    cpdef void acknowledge(self, Incoming message, unsigned long long seq, bytes tail) except *
    cpdef void refuse(self, Incoming message, object error) except *
    cpdef bint takes_lines(self) except -1
    @cython.locals(count=Py_ssize_t)
    cpdef Py_ssize_t publish_lines(self, PublishedLines lines, unsigned long long epoch) except -1
