# C types for audience.py.

cimport cython

from midge.jetstream.consumer.consumer_set cimport ConsumerSet
from midge.jetstream.store.interface cimport StreamStore


cdef class Audience:
    cdef object _stream
    cdef StreamStore _store
    cdef unsigned long long _announced_seq
    cdef unsigned long long _asked_group
    cdef readonly ConsumerSet consumers

    cpdef void announce_soon(self) except *
    @cython.locals(store=StreamStore, visible="unsigned long long", seq="unsigned long long",
                   subject=bytes)
    cpdef void announce(self) except *
    cpdef void announce_when_durable(self) except *
