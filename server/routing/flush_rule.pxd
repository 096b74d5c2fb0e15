# C types for flush_rule.py.

cimport cython

from midge.server.routing.client cimport Client
from midge.server.routing.lone_reads cimport LoneReads

cdef Py_ssize_t _DIRTY_CHUNKS_MAX, _READ_BYTES_MAX


cdef class FlushRule:
    cdef readonly unsigned long long batches
    cdef readonly object soon
    cdef Client _first
    cdef list _others
    cdef bint _is_flush_due
    cdef unsigned long long _due_since
    cdef LoneReads _lone_reads
    cdef Py_ssize_t _read_bytes

    cpdef void touch(self, Client client) except *
    cpdef void flush_soon(self) except *
    cpdef bint postpone(self) except -1
    cpdef void flush_postponed(self) except *
    cpdef bint is_reading(self) noexcept
    cpdef void flush_unless_due(self) except *
    cpdef void begin_batch(self) except *
    cpdef void end_batch(self, Py_ssize_t read_bytes) except *
    cpdef void flush(self) except *
    @cython.final
    cdef Py_ssize_t _count_dirty(self) except -1
    @cython.final
    cdef void _note_dirty(self, Client client) except *
    @cython.final
    @cython.locals(first=Client, dirty=list, left=list, client=Client, done=Py_ssize_t)
    cdef void _write_dirty(self) except *
