# C types for readers.py.

cimport cython

from midge.jetstream.consumer.consumer_set cimport ConsumerSet
from midge.jetstream.store.store cimport Store


cdef class StreamReaders:
    cdef Store _store
    cdef unsigned long long _announced_seq
    cdef unsigned long long _asked_group
    cdef readonly ConsumerSet consumers
    cdef readonly set followers
    cdef object _remove

    cpdef void announce_soon(self) except *
    @cython.locals(store=Store, visible="unsigned long long", seq="unsigned long long",
                   subject=bytes)
    cpdef void announce(self) except *
    cpdef void announce_when_durable(self) except *
