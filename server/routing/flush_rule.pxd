# C types for flush_rule.py.

cimport cython

from midge.server.routing.client cimport Client
from midge.server.routing.lone_reads cimport LoneReads

cdef Py_ssize_t _DIRTY_CHUNKS_MAX, _READ_BYTES_MAX


cdef class FlushRule:
    cdef readonly unsigned long long batches
    cdef readonly object soon
    cdef Client _first
    cdef Client _last
    cdef Py_ssize_t _dirty
    cdef bint _is_flush_due
    cdef unsigned long long _due_since
    cdef LoneReads _lone_reads
    cdef Py_ssize_t _read_bytes

    cpdef bint touch(self, Client client) except -1
    cpdef void flush_soon(self) except *
    cpdef bint postpone(self) except -1
    cpdef bint flush_postponed(self) except -1
    cpdef bint is_reading(self) noexcept
    cpdef void flush_unless_due(self) except *
    cpdef bint begin_batch(self) except -1
    cpdef bint end_batch(self, Py_ssize_t read_bytes) except -1
    cpdef bint flush(self) except -1
    @cython.final
    cdef bint _note_dirty(self, Client client) except -1
    @cython.final
    cdef void _put_back(self, Client first, Client last, Py_ssize_t count) except *
    @cython.final
    @cython.locals(client=Client, last=Client, following=Client, left=Py_ssize_t)
    cdef void _write_dirty(self) except *
