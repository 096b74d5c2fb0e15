cimport cython

from midge.protocol.handler cimport Handler

cdef Py_ssize_t _MAX_SIZE_DIGITS


cdef class LineTaker:
    cdef public Py_ssize_t taken

    cdef Py_ssize_t take_lines(
        self, StreamParser parser, const unsigned char *data, Py_ssize_t start, Py_ssize_t end,
        Py_ssize_t max_control_line
    ) except -1


cdef class StreamParser:
    cdef public Handler handler
    cdef public bint halted
    cdef public Py_ssize_t budget, max_payload, run_line_cost
    cdef public bint connect_required
    cdef public LineTaker taker

    cpdef Py_ssize_t feed(self, bytearray buffer, Py_ssize_t start, Py_ssize_t end) except -1
    cpdef void charge(self, Py_ssize_t cost_bytes) except *
    @cython.locals(taker=LineTaker, limit=Py_ssize_t, after=Py_ssize_t)
    cdef Py_ssize_t offer_lines(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end,
        Py_ssize_t max_control_line, Py_ssize_t cost_bytes
    ) except -1
    cpdef void forget_buffer(self) except *


cpdef list split_arguments(bytes arguments)

@cython.locals(number=Py_ssize_t, digit=int, i=Py_ssize_t)
cpdef Py_ssize_t parse_size(const unsigned char *data, Py_ssize_t start, Py_ssize_t end)
