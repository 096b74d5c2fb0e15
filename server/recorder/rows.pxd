# C types for rows.py.

cimport cython

from midge.protocol cimport memory
from midge.protocol.frame cimport Frame

cdef Py_ssize_t _BYTES_MAX


cdef class Texts:
    cdef readonly object ends
    cdef readonly bytearray valid
    cdef readonly bytearray buffer
    cdef readonly Py_ssize_t used
    cdef readonly Py_ssize_t present
    cdef int *_ends
    cdef unsigned char *_valid
    cdef unsigned char *_data

    @cython.locals(used=Py_ssize_t)
    cpdef void add(self, Py_ssize_t row, Frame frame, Py_ssize_t start, Py_ssize_t end) except *
    cpdef void skip(self, Py_ssize_t row) noexcept
    cpdef void clear(self) except *
    @cython.locals(i=Py_ssize_t)
    cdef void _begin(self, Py_ssize_t rows) noexcept
    @cython.locals(buffer=bytearray)
    cdef void _grow(self, Py_ssize_t wanted) except *


cdef class MessageRows:
    cdef readonly Py_ssize_t capacity
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t count_max
    cdef readonly Py_ssize_t runs
    cdef readonly Py_ssize_t bytes
    cdef public long long hour
    cdef public bint closed
    cdef readonly dict subjects
    cdef readonly dict accounts
    cdef readonly object times
    cdef readonly object cids
    cdef readonly object sizes
    cdef readonly object subject_codes
    cdef readonly object account_codes
    cdef readonly object plain
    cdef readonly object queued
    cdef readonly object repeats
    cdef readonly Texts replies
    cdef readonly Texts headers
    cdef readonly Texts payloads
    cdef long long *_times
    cdef long long *_cids
    cdef long long *_sizes
    cdef int *_subjects
    cdef int *_accounts
    cdef int *_plain
    cdef int *_queued
    cdef int *_repeats

    cpdef bint is_full(self)
    cpdef int subject_code(self, bytes subject) except -1
    cpdef int account_code(self, str account) except -1
    @cython.locals(row=Py_ssize_t, base=Py_ssize_t, header=Py_ssize_t)
    cpdef void add(
        self, long long time_us, int account, long long cid, int subject, Frame frame,
        int plain, int queued, bint keeps_payload
    ) except *
    @cython.locals(room=Py_ssize_t)
    cpdef Py_ssize_t repeat(self, Py_ssize_t count) noexcept
    cpdef void clear(self) except *
