# C types for audience.py.

cimport cython

from midge.jetstream.store.interface cimport StreamStore
from midge.sublist.subjects cimport matches


cdef class Audience:
    cdef object _stream
    cdef StreamStore _store
    cdef unsigned long long _announced_seq
    cdef public dict consumers
    cdef public bint is_empty

    cpdef void announce_soon(self) except *
    @cython.locals(store=StreamStore, visible="unsigned long long", seq="unsigned long long",
                   subject=bytes)
    cpdef void announce(self) except *
    cpdef void removed(self, unsigned long long seq, bytes subject) except *
    cpdef void trimmed(self) except *

@cython.locals(filters=tuple)
cpdef bint takes(object consumer, bytes subject) except -1
