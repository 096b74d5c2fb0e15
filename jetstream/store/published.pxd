cimport cython

from midge.jetstream.store cimport layout, numbers
from midge.protocol cimport lines

cdef Py_ssize_t _LINE_MIN, _MOST_MIN, LINES_MAX
cdef int _CR, _LF, _SPACE


@cython.final
cdef class PublishedLines:
    cdef const unsigned char *data
    cdef readonly bytearray rows
    cdef readonly Py_ssize_t base, after, count, largest, subject_bytes, payload_bytes
    cdef public long long time_ns
    cdef Py_ssize_t _most

    @cython.locals(rows=bytearray, row=Py_ssize_t, stop=Py_ssize_t, position=Py_ssize_t,
                   subject_end=Py_ssize_t, found=Py_ssize_t, line_end=Py_ssize_t,
                   size=Py_ssize_t, after=Py_ssize_t)
    cpdef Py_ssize_t find(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end,
        Py_ssize_t max_control_line, Py_ssize_t max_payload
    ) noexcept
    @cython.locals(rows=bytearray, row=Py_ssize_t, i=Py_ssize_t, size=Py_ssize_t,
                   subject_bytes=Py_ssize_t, payload_bytes=Py_ssize_t, largest=Py_ssize_t)
    cpdef void keep(self, Py_ssize_t count) noexcept
    @cython.locals(i=Py_ssize_t, total=Py_ssize_t)
    cpdef Py_ssize_t part_bytes(self, Py_ssize_t first, Py_ssize_t count) noexcept
    @cython.locals(row=Py_ssize_t)
    cpdef Py_ssize_t end_of(self, Py_ssize_t count) noexcept
