cimport cython

from midge.jetstream.archive cimport crc32c
from midge.jetstream.store cimport numbers
from midge.protocol cimport memory

cdef Py_ssize_t _HASH_BITS, _HASH_BITS_MIN, _MARGIN, _SIZE_DIGITS_MAX, _LITERAL, _NEAR, _FAR
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
# Every read of `data` is compared with its end, and every write with the size, beforehand.
@cython.locals(size=Py_ssize_t, at=Py_ssize_t, done=Py_ssize_t, offset=Py_ssize_t,
               tag=Py_ssize_t, kind=Py_ssize_t, width=Py_ssize_t, least=Py_ssize_t,
               number="long long", length="long long")
cpdef bytearray decode(
    const unsigned char *data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t size_max
)
@cython.locals(number="unsigned int", i=Py_ssize_t)
cdef long long _number(
    const unsigned char *data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t width
) except -1


@cython.final
cdef class Encoder:
    cdef bytearray _heads, _out
    cdef Py_ssize_t _used

    @cython.locals(rest=Py_ssize_t, literal=Py_ssize_t, end=Py_ssize_t)
    cpdef bytes encode(self, bytearray data, Py_ssize_t start, Py_ssize_t size)
    @cython.locals(heads=bytearray, limit=Py_ssize_t, literal=Py_ssize_t, at=Py_ssize_t,
                   tried=Py_ssize_t, word="unsigned long long", slot=Py_ssize_t,
                   candidate=Py_ssize_t, length=Py_ssize_t, bits=Py_ssize_t, shift=Py_ssize_t)
    cdef Py_ssize_t _compress(self, bytearray data, Py_ssize_t start, Py_ssize_t end) except -1
    cdef inline void _put(self, Py_ssize_t value, Py_ssize_t size) noexcept
    @cython.locals(length=Py_ssize_t)
    cdef inline void _literal(
        self, bytearray data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t data_end
    ) noexcept
    @cython.locals(first=Py_ssize_t)
    cdef inline void _copy(self, Py_ssize_t offset, Py_ssize_t length) noexcept
    cdef inline void _repeat(self, Py_ssize_t length) noexcept
