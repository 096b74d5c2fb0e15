# C types for worker.py.

cimport cython

from midge.protocol cimport memory
from midge.protocol.route cimport RouteParser

cdef int _B, _N, _ARGUMENTS
cdef Py_ssize_t _HEAD, _BLOCK_COST, _PER_MESSAGE_COST
cdef bytes _VERB


cdef class BlockHandler:
    cdef void take_block(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t number,
        Py_ssize_t count, Py_ssize_t size
    ) except *
    cpdef void take_numbered(self, bytes subject, Py_ssize_t number, bytes sid) except *


cdef class WorkerParser(RouteParser):
    cdef public BlockHandler blocks

    cdef bint _speaks(self, int byte) except -1
    @cython.locals(first=Py_ssize_t, after=Py_ssize_t, count=Py_ssize_t, number=Py_ssize_t,
                   size=Py_ssize_t)
    cdef Py_ssize_t _command(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) except -2
    cdef Py_ssize_t _take_line(
        self, list tokens, const unsigned char *data, Py_ssize_t start, Py_ssize_t body,
        Py_ssize_t end
    ) except -2


cdef Py_ssize_t _number_at(const unsigned char *data, Py_ssize_t at) except -1
