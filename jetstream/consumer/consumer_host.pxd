from midge.jetstream.environment.sink cimport Sink
from midge.jetstream.environment.ticks cimport Ticks, ticks_of
from midge.jetstream.store.interface cimport MessageView
from midge.jetstream.store.store cimport Store


cdef class ConsumerHost:
    cdef readonly bytes stream
    cdef readonly Store store
    cdef readonly object around
    cdef readonly Sink sink
    cdef readonly object clock
    cdef Ticks ticks
    cdef MessageView view
    cdef public str retention
    cdef public long long max_msgs_per_subject, max_msg_size
    cdef public unsigned long long known_removals
    cdef unsigned long long turn
    cdef long long now_ns, wall_ns
    cdef list receiving

    cdef void begin_turn(self) except *
    cpdef object ready(self, object consumer)
    cpdef bytes subject_of(self, bytes kind, bytes name)
    cpdef void acked(self, unsigned long long seq, list others) except *
