cimport cython

from midge.jetstream.archive cimport crc32c
from midge.jetstream.store cimport numbers

cdef Py_ssize_t _HASH_BITS, _HASH_BITS_MIN, _MARGIN, _SIZE_DIGITS_MAX
cdef unsigned int _WORD, _CRC_MASK
cdef unsigned long long _HASH_FACTOR


@cython.locals(crc="unsigned int")
cpdef unsigned int checksum(const unsigned char *data, Py_ssize_t start, Py_ssize_t end) noexcept
@cython.locals(crc="unsigned int")
cpdef unsigned int checksum_by_tables(
    const unsigned char *data, Py_ssize_t start, Py_ssize_t end
) noexcept
@cython.locals(size=Py_ssize_t, i=Py_ssize_t, octet=Py_ssize_t)
cpdef Py_ssize_t decoded_size(const unsigned char *data, Py_ssize_t start, Py_ssize_t end) except -1
cpdef bytearray decode(
    const unsigned char *data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t size_max
)


# Every read of `data` is compared with its end, and every write with the size, beforehand.
@cython.final
cdef class _Decoder:
    cdef Py_ssize_t size
    cdef bytearray out
    cdef Py_ssize_t at, done, offset

    @cython.locals(tag=Py_ssize_t, kind=Py_ssize_t)
    cdef bytearray run(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end)
    @cython.locals(number=Py_ssize_t, i=Py_ssize_t, octet=Py_ssize_t)
    cdef Py_ssize_t _number(
        self, const unsigned char *data, Py_ssize_t end, Py_ssize_t count
    ) except -1
    cdef void _literal(self, const unsigned char *data, Py_ssize_t end, Py_ssize_t length) except *
    @cython.locals(distance=Py_ssize_t, length=Py_ssize_t)
    cdef void _near(self, const unsigned char *data, Py_ssize_t end, Py_ssize_t tag) except *
    @cython.locals(offset=Py_ssize_t, out=bytearray)
    cdef void _repeat(self, Py_ssize_t length) except *


@cython.final
cdef class Encoder:
    cdef bytearray _heads, _out
    cdef Py_ssize_t _used

    @cython.locals(rest=Py_ssize_t, literal=Py_ssize_t, end=Py_ssize_t)
    cpdef bytes encode(self, bytearray data, Py_ssize_t start, Py_ssize_t size)
    @cython.locals(heads=bytearray, limit=Py_ssize_t, literal=Py_ssize_t, at=Py_ssize_t,
                   tried=Py_ssize_t, word="unsigned int", slot=Py_ssize_t, candidate=Py_ssize_t,
                   length=Py_ssize_t, bits=Py_ssize_t, shift=Py_ssize_t)
    cdef Py_ssize_t _compress(self, bytearray data, Py_ssize_t start, Py_ssize_t end) except -1
    cdef void _put(self, Py_ssize_t value, Py_ssize_t size) noexcept
    @cython.locals(length=Py_ssize_t)
    cdef void _literal(self, bytearray data, Py_ssize_t start, Py_ssize_t end) noexcept
    cdef void _copies(self, Py_ssize_t offset, Py_ssize_t length) noexcept
    cdef void _copy(self, Py_ssize_t offset, Py_ssize_t length) noexcept
