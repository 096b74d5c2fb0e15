# Memory made ready in C; pages.py has the contracts.

from cpython.bytearray cimport PyByteArray_AS_STRING


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
    """
    void midge_populate(char *data, Py_ssize_t start, Py_ssize_t end) noexcept nogil


cdef inline void populate(bytearray data, Py_ssize_t start, Py_ssize_t end) noexcept:
    midge_populate(PyByteArray_AS_STRING(data), start, end)
