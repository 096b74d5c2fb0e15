# C types for host.py.

from midge.jetstream.environment.sink cimport Sink
from midge.jetstream.store.interface cimport MessageView
from midge.jetstream.store.store cimport Store


cdef class ConsumerHost:
    cdef readonly bytes stream
    cdef readonly Store store
    cdef readonly Sink sink
    cdef readonly object clock
    cdef MessageView view
    cdef public str retention
    cdef public long long max_msgs_per_subject
    cdef public long long max_msg_size
    cdef public long long max_payload
    cdef public str domain
    cdef public str account
    cdef public str account_hash
    cdef public bint has_second_acks
    cdef public unsigned long long known_removals

    cpdef object ready(self, object consumer)
    cpdef void acked(self, unsigned long long seq) except *
