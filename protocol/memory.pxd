# The hot path's byte operations as C one-liners; memory.py has their contracts.

cimport cython

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp, memcpy


cdef extern from *:
    """
    #include <stdint.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #ifndef MADV_POPULATE_WRITE
    #define MADV_POPULATE_WRITE 23  /* since Linux 5.14 */
    #endif
    #endif

    /* Only whole pages: what shares a page with something else is there soon enough. */
    static inline void midge_populate(char *data, Py_ssize_t start, Py_ssize_t end) {
    #if defined(__linux__)
        uintptr_t first = ((uintptr_t)data + start + 4095) & ~(uintptr_t)4095;
        uintptr_t behind = ((uintptr_t)data + end) & ~(uintptr_t)4095;
        if (first < behind) (void)madvise((void *)first, behind - first, MADV_POPULATE_WRITE);
    #else
        (void)data, (void)start, (void)end;
    #endif
    }

    static inline void *midge_items(PyObject *column) {
        Py_buffer view;
        if (PyObject_GetBuffer(column, &view, PyBUF_WRITABLE)) return NULL;
        PyBuffer_Release(&view);
        return view.buf;
    }
    """
    void midge_populate(char *data, Py_ssize_t start, Py_ssize_t end) noexcept nogil
    int __builtin_clzll(unsigned long long value) noexcept nogil
    void *midge_items(object column) except NULL


cdef inline bint is_compiled() noexcept:
    return True


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


# Eight bytes at a time: a byte below 0x21 borrows from its own highest bit, and no byte before it
# does.
@cython.overflowcheck(False)
cdef inline Py_ssize_t token_end(
    const unsigned char *data, Py_ssize_t start, Py_ssize_t end
) noexcept:
    cdef unsigned long long word
    while end - start >= 8:
        memcpy(&word, data + start, 8)
        if (word - 0x2121212121212121ULL) & ~word & 0x8080808080808080ULL:
            break
        start += 8
    while start < end and data[start] > 0x20:
        start += 1
    return start


cdef inline bytes take(const unsigned char *data, Py_ssize_t start, Py_ssize_t end):
    return PyBytes_FromStringAndSize(<const char *>data + start, end - start)


cdef inline void copy(
    unsigned char *target, Py_ssize_t at, const unsigned char *data, Py_ssize_t start,
    Py_ssize_t end
) noexcept:
    copy_piece(target + at, data + start, end - start)


cdef inline void copy_bytes(unsigned char *target, Py_ssize_t at, bytes piece) noexcept:
    copy_piece(
        target + at, <const unsigned char *>PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece)
    )


# Verbs, sids and subjects are short. Two moves of a fixed size, which may overlap, take a third of
# the time of a call: 2 ns instead of 6 ns for 3 to 32 bytes.
cdef inline void copy_piece(
    unsigned char *target, const unsigned char *source, Py_ssize_t length
) noexcept:
    if length > 32:
        memcpy(target, source, length)
    elif length >= 16:
        memcpy(target, source, 16)
        memcpy(target + length - 16, source + length - 16, 16)
    elif length >= 8:
        memcpy(target, source, 8)
        memcpy(target + length - 8, source + length - 8, 8)
    elif length >= 4:
        memcpy(target, source, 4)
        memcpy(target + length - 4, source + length - 4, 4)
    elif length > 0:
        target[0] = source[0]
        target[length - 1] = source[length - 1]
        target[length // 2] = source[length // 2]


cdef inline bytearray allocate(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)


cdef inline void populate(bytearray data, Py_ssize_t start, Py_ssize_t end) noexcept:
    midge_populate(PyByteArray_AS_STRING(data), start, end)


cdef inline bint same(
    const unsigned char *data, Py_ssize_t one, Py_ssize_t other, Py_ssize_t length
) noexcept:
    return memcmp(data + one, data + other, length) == 0


cdef inline bint same_word(const unsigned char *data, Py_ssize_t one, Py_ssize_t other) noexcept:
    cdef unsigned long long word_of_one, word_of_other
    memcpy(&word_of_one, data + one, 8)
    memcpy(&word_of_other, data + other, 8)
    return word_of_one == word_of_other


cdef inline void count_by_size(
    long long *counts, Py_ssize_t size, Py_ssize_t number
) noexcept:
    counts[(65 - __builtin_clzll(size - 1)) >> 1 if size > 1 else 0] += number


# Attributes that are typed memoryviews would add 10,000 lines of C to each module that cimports
# them.
cdef inline int *int32_items(object column) except NULL:
    return <int *>midge_items(column)


cdef inline long long *int64_items(object column) except NULL:
    return <long long *>midge_items(column)
