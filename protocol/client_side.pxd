cimport cython

from midge.protocol.stream_parser cimport parse_size

cdef tuple _CONTROLS
cdef Py_ssize_t _LINE_MAX_BYTES
cdef int _BEFORE_REPLY, _ACK_DOTS, _SEQ_DOTS, _INT64_DIGITS
cdef int _H, _SPACE, _CR, _LF, _DOT, _ZERO, _NINE


@cython.final
cdef class FrameReader:
    cdef public list controls
    cdef list _chunks
    cdef Py_ssize_t _have_bytes, _need_bytes, _blanks, _first, _second, _before, _last

    @cython.locals(buffer=bytes, messages=list, consumed=Py_ssize_t, rest=bytes)
    cpdef list feed(self, bytes data)
    @cython.locals(
        data="const unsigned char *", position=Py_ssize_t, size=Py_ssize_t, line_end=Py_ssize_t,
        begin=Py_ssize_t, start=Py_ssize_t, body=Py_ssize_t, end=Py_ssize_t, total=Py_ssize_t,
        header=Py_ssize_t, reply_end=Py_ssize_t, sizes=int, has_reply=bint, fields=tuple)
    cdef Py_ssize_t _scan(self, bytes buffer, list messages) except -1
    @cython.locals(at=Py_ssize_t)
    cdef Py_ssize_t _line_end(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t size) noexcept
    cdef Py_ssize_t _unfinished_line(self, bytes buffer, Py_ssize_t position) except -1


@cython.locals(
    reply=bytes, data="const unsigned char *", size=Py_ssize_t, at=Py_ssize_t, dots=int, token=int,
    skipped=int, digits=int, number="unsigned long long", seqs=list, times_ns=list)
cpdef tuple delivery_columns(list messages)

@cython.locals(verb=bytes)
cdef _control(bytes line)
