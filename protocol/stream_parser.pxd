# C types for stream_parser.py.

from midge.protocol.handler cimport Handler


cdef class StreamParser:
    cdef public Handler handler
    cdef public bint halted
    cdef public Py_ssize_t budget
    cdef public Py_ssize_t max_payload
    cdef public bint connect_required

    cpdef Py_ssize_t feed(self, bytearray buffer, Py_ssize_t start, Py_ssize_t end) except -1
    cpdef void charge(self, Py_ssize_t cost_bytes) except *
    cpdef void forget_buffer(self) except *
