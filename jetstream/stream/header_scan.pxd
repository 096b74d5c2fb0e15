# C types for header_scan.py.

cimport cython

cdef int _CR, _LF, _SPACE, _FIRST_LINE
cdef const unsigned char *_NATS
cdef const unsigned char *_MSG_ID


@cython.final
cdef class HeaderScan:
    cdef public Py_ssize_t id_start
    cdef public Py_ssize_t id_end

    @cython.locals(kind=int, at=Py_ssize_t, line=Py_ssize_t)
    cpdef int scan(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(i=Py_ssize_t)
    cdef bint _begins(
        self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end,
        const unsigned char *word, Py_ssize_t length
    ) noexcept
    cdef void _trim(self, const unsigned char *data, Py_ssize_t line_end) noexcept
