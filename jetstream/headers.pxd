cimport cython

cdef list _KNOWN_BY_LENGTH
cdef bytes _SCHEDULE, _VERSION, _LINE_END, _NATS_LINE
cdef int _EMPTY_SIZE, _CR, _LF, _COLON, _SPACE, _VERSION_SIZE, _FIRST_LINE
cdef const unsigned char *_NATS
cdef const unsigned char *_MSG_ID


@cython.final
cdef class HeaderScan:
    cdef public Py_ssize_t id_start, id_end

    @cython.locals(kind=int, at=Py_ssize_t, line=Py_ssize_t)
    cpdef int scan(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(i=Py_ssize_t)
    cdef bint _begins(
        self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end,
        const unsigned char *word, Py_ssize_t length
    ) noexcept
    cdef void _trim(self, const unsigned char *data, Py_ssize_t line_end) noexcept


@cython.locals(at=Py_ssize_t, start=Py_ssize_t, colon=Py_ssize_t, end=Py_ssize_t, value=Py_ssize_t,
               found=dict, name=bytes, data="const unsigned char *", last=Py_ssize_t,
               has_unknown=bint)
cpdef dict nats_headers(bytes block)

@cython.locals(names=list, name=bytes)
cdef bytes _known(const unsigned char *data, Py_ssize_t start, Py_ssize_t end)

@cython.locals(length=Py_ssize_t, i=Py_ssize_t, letters="const unsigned char *")
cdef bint _begins(const unsigned char *data, Py_ssize_t start, Py_ssize_t end, bytes word) except -1

@cython.locals(data="const unsigned char *", size=Py_ssize_t, at=Py_ssize_t, start=Py_ssize_t,
               kept=Py_ssize_t)
cpdef bytes whole(bytes block)

@cython.locals(start=Py_ssize_t, value=Py_ssize_t, end=Py_ssize_t)
cpdef bytes find(bytes block, bytes name)

cdef Py_ssize_t _line(bytes block, bytes name) except -2

cpdef bytes add(bytes block, bytes name, bytes value)

cpdef bytes add_lines(bytes block, bytes lines)

@cython.locals(start=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t)
cpdef bytes replace(bytes block, bytes name, bytes value)

cpdef bytes remove(bytes block, bytes name)

cpdef bytes remove_prefix(bytes block, bytes prefix)

@cython.locals(at=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, kept=list, left=bytes)
cdef bytes _without(bytes block, bytes begin, Py_ssize_t before)

@cython.locals(end=Py_ssize_t)
cpdef bytes to_store(bytes block)

cpdef bytes without_request_info(bytes block)
