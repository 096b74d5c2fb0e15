cimport cython

from midge.server.routing.client cimport Client

cdef Py_ssize_t _DIRTY_CHUNKS_MAX, _READ_BYTES_MAX
cdef int _LONE_TURNS, _TURNS_AT_ONCE
cdef Py_ssize_t _READS_MAX


@cython.final
cdef class LoneReads:
    cdef public bint is_reading
    cdef Py_ssize_t _before, _each
    cdef bint _is_shared
    cdef int _turns
    cdef Py_ssize_t _left

    cpdef bint are_expected(self) noexcept
    cpdef void begin_read(self, Py_ssize_t receivers) noexcept
    @cython.locals(is_lone=bint)
    cpdef bint end_read(self, Py_ssize_t receivers) noexcept
    cpdef void end_turn(self, Py_ssize_t batches) noexcept


cdef class FlushScheduler:
    cdef readonly unsigned long long batches
    cdef readonly object soon
    cdef Client _first, _last
    cdef Py_ssize_t _dirty
    cdef bint _is_flush_due
    cdef unsigned long long _due_since
    cdef LoneReads _lone_reads
    cdef Py_ssize_t _read_bytes

    cpdef bint touch(self, Client client) except -1
    cpdef void flush_soon(self) except *
    cpdef bint postpone(self) except -1
    cpdef bint flush_postponed(self) except -1
    cpdef void write_after(self, object work) except *
    cpdef bint is_reading(self) noexcept
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
