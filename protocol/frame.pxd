cimport cython

from midge.protocol cimport memory


@cython.final
cdef class Frame:
    cdef public bytearray buffer
    cdef const unsigned char *data
    cdef public Py_ssize_t base, subject_start, subject_end, reply_start, reply_end, tail
    cdef public Py_ssize_t header_size, size, payload, end
    cdef public bint repeated

    cpdef bytes subject_bytes(self)
    cpdef bytes reply_bytes(self)
    @cython.locals(start=Py_ssize_t)
    cpdef bytes header_bytes(self)
    @cython.locals(start=Py_ssize_t, header=Py_ssize_t)
    cpdef bytes payload_bytes(self)
    cpdef bint has_reply(self)


cdef tuple _SMALL_SIZES
cdef int _SMALL_COUNT, _NO_HEADERS, _SPACE, _TAB, _LF, _CR


@cython.locals(sizes=bytes, size=Py_ssize_t)
cpdef Frame compose(bytes subject, bytes payload, bytes reply=*, bytes headers=*)

cpdef Frame without_headers(Frame frame)

cpdef Frame with_subject(Frame frame, bytes subject)

@cython.locals(sizes_start=Py_ssize_t, written=bytes, header_size=Py_ssize_t, start=Py_ssize_t,
               block=bytes)
cpdef Frame rewritten(Frame frame, Py_ssize_t line_end)

@cython.locals(i=Py_ssize_t, byte=cython.uchar)
cdef bint _holds_blank(bytes text) noexcept

@cython.locals(verb=bytes, frame=Frame, at=Py_ssize_t, target="unsigned char *")
cdef Frame _assemble(
    bytes subject, bytes reply, bytes sizes, bytes headers, bytes payload, Py_ssize_t header_size
)
