# C types for ack_subject.py: digits are written and read without an object for each.

cimport cython

from midge.protocol cimport digits, lines, memory

cdef int _NUMBERS_MAX_BYTES, _DOTS, _DOTS_SECOND, _DIGITS_MAX
cdef unsigned long long _SECOND_NS
cdef unsigned char _DOT, _ZERO, _NINE


@cython.final
cdef class AckSubject:
    cdef Py_ssize_t _prefix_size
    cdef readonly bytearray text
    cdef readonly Py_ssize_t end

    @cython.locals(text="unsigned char *", at=Py_ssize_t, second="unsigned long long")
    cpdef void compose(
        self, unsigned long long deliveries, unsigned long long seq,
        unsigned long long consumer_seq, unsigned long long time_ns, unsigned long long pending
    ) noexcept
    cpdef bytes copied(self)


@cython.final
cdef class AckNumbers:
    cdef readonly unsigned long long deliveries, seq, consumer_seq

    @cython.locals(data="const unsigned char *", length=Py_ssize_t, dots=int, i=Py_ssize_t,
                   skipped=int, at=Py_ssize_t)
    cpdef void read(self, bytes subject) except *
    @cython.locals(after=Py_ssize_t)
    cdef int read_from(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end) noexcept


@cython.locals(count=int)
cdef int tokens_from(const unsigned char *data, Py_ssize_t at, Py_ssize_t end) noexcept

cdef Py_ssize_t next_token(const unsigned char *data, Py_ssize_t at, Py_ssize_t end) noexcept

@cython.locals(value="unsigned long long", digits=int)
cdef unsigned long long read_number(
    const unsigned char *data, Py_ssize_t at, Py_ssize_t end
) noexcept
