# C types for backlog.py.

cimport cython

from midge.jetstream.store.store cimport Store


cdef class Backlog:
    cdef Store _store
    cdef long long _max_messages
    cdef long long _max_bytes
    cdef unsigned long long _group
    cdef long long _messages
    cdef long long _bytes
    cdef unsigned long long _last_seq
    cdef long long _written_messages
    cdef long long _written_bytes
    cdef unsigned long long _written_seq

    @cython.locals(visible="unsigned long long", messages="long long", waiting="long long")
    cpdef bint refuses(self, long long size) except -1
    @cython.locals(group="unsigned long long")
    cpdef void stored(self, unsigned long long seq, long long size) noexcept
    @cython.locals(visible="unsigned long long", messages="long long", waiting="long long")
    cpdef bint refuses_lines(self, long long count, long long size) except -1
    cpdef void stored_lines(
        self, unsigned long long seq, long long count, long long size
    ) noexcept
