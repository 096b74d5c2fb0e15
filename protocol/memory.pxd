# The hot path's byte operations as C one-liners; memory.py has their contracts.

from cpython.bytearray cimport PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp, memcpy


cdef inline bint starts_with(
    const unsigned char *data, Py_ssize_t start, Py_ssize_t end, bytes prefix
) noexcept:
    cdef Py_ssize_t length = PyBytes_GET_SIZE(prefix)
    return end - start >= length and memcmp(data + start, PyBytes_AS_STRING(prefix), length) == 0


cdef inline Py_ssize_t find(
    const unsigned char *data, int byte, Py_ssize_t start, Py_ssize_t end
) noexcept:
    if end <= start:
        return -1
    cdef const unsigned char *found = <const unsigned char *>memchr(data + start, byte, end - start)
    return -1 if found is NULL else found - data


cdef inline bytes take(const unsigned char *data, Py_ssize_t start, Py_ssize_t end):
    return PyBytes_FromStringAndSize(<const char *>data + start, end - start)


cdef inline void copy(
    unsigned char *target, Py_ssize_t at, const unsigned char *data, Py_ssize_t start,
    Py_ssize_t end
) noexcept:
    memcpy(target + at, data + start, end - start)


cdef inline void copy_bytes(unsigned char *target, Py_ssize_t at, bytes piece) noexcept:
    memcpy(target + at, PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))


cdef inline bytearray allocate(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)


cdef inline bint same(
    const unsigned char *data, Py_ssize_t one, Py_ssize_t other, Py_ssize_t length
) noexcept:
    return memcmp(data + one, data + other, length) == 0
