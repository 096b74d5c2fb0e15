# Bytes in place, by C calls; octets.py has the contracts.

cimport cython

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp, memcpy


# The most bytes that four words hold, which may overlap, and the fewest that one word holds.
cdef enum:
    WORDS_MIN = 8
    WORDS_MAX = 32


cdef inline bytes take(const unsigned char *data, Py_ssize_t start, Py_ssize_t end):
    return PyBytes_FromStringAndSize(<const char *>data + start, end - start)


cdef inline bint equals(
    bytes piece, const unsigned char *data, Py_ssize_t start, Py_ssize_t end
) noexcept:
    cdef Py_ssize_t length = end - start
    if PyBytes_GET_SIZE(piece) != length:
        return False
    cdef const unsigned char *lying = data + start
    cdef const unsigned char *own = <const unsigned char *>PyBytes_AS_STRING(piece)
    if WORDS_MIN <= length <= WORDS_MAX:  # most subjects are
        if word_at(own) != word_at(lying) or (
            word_at(own + length - 8) != word_at(lying + length - 8)
        ):
            return False
        return length <= 16 or (
            word_at(own + 8) == word_at(lying + 8)
            and word_at(own + length - 16) == word_at(lying + length - 16)
        )
    return memcmp(own, lying, length) == 0


# The mix wraps around on purpose, even in a build that checks for overflow.
@cython.overflowcheck(False)
cdef inline Py_ssize_t digest(const unsigned char *data, Py_ssize_t start, Py_ssize_t end) noexcept:
    # Eight bytes at a time; the last word overlaps the one before it. Forced collisions gain an
    # attacker nothing, because a collision costs no more than a look-up that misses.
    cdef Py_ssize_t length = end - start
    cdef unsigned long long mixed = length
    if length >= 8:
        while end - start > 8:
            mixed = mix(mixed, word_at(data + start))
            start += 8
        mixed = mix(mixed, word_at(data + end - 8))
    elif length >= 4:
        mixed = mix(mixed, half_word_at(data + start) << 32 | half_word_at(data + end - 4))
    elif length > 0:
        mixed = mix(mixed, data[start] << 16 | data[start + length // 2] << 8 | data[end - 1])
    return mixed * 0x9E3779B97F4A7C15ULL >> 33


@cython.overflowcheck(False)
cdef inline unsigned long long mix(unsigned long long mixed, unsigned long long word) noexcept:
    mixed = (mixed ^ word) * 0x9E3779B97F4A7C15ULL
    return mixed ^ mixed >> 29


cdef inline unsigned long long word_at(const unsigned char *data) noexcept:
    cdef unsigned long long word
    memcpy(&word, data, 8)
    return word


cdef inline unsigned long long half_word_at(const unsigned char *data) noexcept:
    cdef unsigned int word
    memcpy(&word, data, 4)
    return word
