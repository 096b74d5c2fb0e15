cimport cython

from midge.jetstream.store cimport layout, numbers
from midge.jetstream.store.file cimport native
from midge.jetstream.store.published cimport PublishedLines

cdef Py_ssize_t _HEAD
cdef int _MESSAGE


cpdef Py_ssize_t padded(Py_ssize_t length) noexcept
cpdef void start_record(
    bytearray data, Py_ssize_t at, Py_ssize_t length, int kind, unsigned int stream,
    unsigned long long seq, long long time_ns
) noexcept
@cython.locals(rows=bytearray, row=Py_ssize_t, subject_length=Py_ssize_t, size=Py_ssize_t,
               length=Py_ssize_t, following=Py_ssize_t, start=Py_ssize_t)
cpdef Py_ssize_t put_lines(
    bytearray data, Py_ssize_t at, Py_ssize_t end, PublishedLines lines, Py_ssize_t first,
    unsigned int stream, unsigned long long seq, Py_ssize_t base
) noexcept
@cython.locals(row=Py_ssize_t, length=Py_ssize_t)
cpdef Py_ssize_t end_of_line(PublishedLines lines, Py_ssize_t line) noexcept
cpdef void start_group(bytearray data, unsigned long long number) noexcept
cpdef void finish_group(
    bytearray data, Py_ssize_t used, Py_ssize_t count, unsigned long long synced_segment,
    unsigned long long synced_position
) noexcept
cpdef int check(
    const unsigned char *data, Py_ssize_t at, Py_ssize_t end, unsigned int seed,
    unsigned long long segment, unsigned long long position
) noexcept
cpdef bint check_head(
    const unsigned char *data, Py_ssize_t at, Py_ssize_t end, unsigned int seed,
    unsigned long long segment, unsigned long long position
) noexcept
cpdef void seal(
    bytearray data, Py_ssize_t used, unsigned int seed, unsigned long long segment,
    unsigned long long position
) noexcept
cpdef unsigned int checksum(
    const unsigned char *data, Py_ssize_t start, Py_ssize_t end, unsigned int seed
) noexcept
cpdef unsigned int place_seed(
    unsigned int seed, unsigned long long segment, unsigned long long position
) noexcept
