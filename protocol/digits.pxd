# Decimal digits in C, two a step; digits.py has the contracts.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy


cdef extern from *:
    """
    #include <string.h>

    static const char midge_pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
        "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
        "8081828384858687888990919293949596979899";

    static const unsigned long long midge_powers[] = {
        0ULL, 10ULL, 100ULL, 1000ULL, 10000ULL, 100000ULL, 1000000ULL, 10000000ULL, 100000000ULL,
        1000000000ULL, 10000000000ULL, 100000000000ULL, 1000000000000ULL, 10000000000000ULL,
        100000000000000ULL, 1000000000000000ULL, 10000000000000000ULL, 100000000000000000ULL,
        1000000000000000000ULL, 10000000000000000000ULL};

    /* Bits times log10(2), corrected by one comparison. */
    static inline int midge_digits(unsigned long long value) {
        int guess = (64 - __builtin_clzll(value | 1)) * 1233 >> 12;
        return guess + 1 - (value < midge_powers[guess]);
    }

    static inline void midge_write(unsigned char *target, int size, unsigned long long value) {
        while (value >> 32) {
            size -= 2;
            memcpy(target + size, midge_pairs + value % 100 * 2, 2);
            value /= 100;
        }
        unsigned int rest = (unsigned int)value;
        while (size > 1) {
            size -= 2;
            memcpy(target + size, midge_pairs + rest % 100 * 2, 2);
            rest /= 100;
        }
        if (size) target[0] = (unsigned char)(48 + rest);
    }
    """
    int midge_digits(unsigned long long value) noexcept nogil
    void midge_write(unsigned char *target, int size, unsigned long long value) noexcept nogil


cdef inline Py_ssize_t write_number(
    unsigned char *target, Py_ssize_t at, unsigned long long value
) noexcept:
    cdef int size = midge_digits(value)
    midge_write(target + at, size, value)
    return at + size


cdef inline Py_ssize_t write_nine(
    unsigned char *target, Py_ssize_t at, unsigned int value
) noexcept:
    midge_write(target + at, 9, value)
    return at + 9


cdef inline bytes with_number(bytes head, unsigned long long value, int last):
    cdef Py_ssize_t length = PyBytes_GET_SIZE(head)
    cdef int size = midge_digits(value)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, length + size + 1)
    cdef char *data = PyBytes_AS_STRING(made)
    memcpy(data, PyBytes_AS_STRING(head), length)
    midge_write(<unsigned char *>data + length, size, value)
    data[length + size] = <char>last
    return made
