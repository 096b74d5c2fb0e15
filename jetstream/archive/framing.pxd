from midge.jetstream.archive.s2 cimport Encoder, checksum
from midge.jetstream.store cimport numbers


cdef class S2Writer:
    cdef Encoder _encoder
    cdef public bint compresses
    cdef readonly bytearray block
    cdef Py_ssize_t _used
    cdef list _out
    cdef readonly Py_ssize_t ready_bytes

    cpdef void write(self, bytes data) except *
    cpdef Py_ssize_t room(self, Py_ssize_t size) except -1
    cpdef void wrote(self, Py_ssize_t size) except *
    cdef void _write_blocks(self) except *
    cdef void _write_block(self, Py_ssize_t start, Py_ssize_t size) except *
