cimport cython

from midge.protocol cimport memory
from midge.protocol.frame cimport Frame

cdef Py_ssize_t _BYTES_MAX


cdef class Texts:
    cdef readonly object ends
    cdef readonly bytearray valid, buffer
    cdef readonly Py_ssize_t used, present
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
    cdef readonly Py_ssize_t capacity, count, count_max, runs, bytes
    cdef public long long hour
    cdef public bint closed
    cdef readonly dict subjects, accounts
    cdef readonly object times, cids, sizes, subject_codes, account_codes, plain, queued, repeats
    cdef readonly Texts replies, headers, payloads
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
