# C types for leaf.py.

cimport cython

from midge.protocol.link cimport LinkParser

cdef int _LETTER


cdef class LeafParser(LinkParser):
    @cython.locals(verb=bytes)
    cdef Py_ssize_t _take_line(
        self, list tokens, const unsigned char *data, Py_ssize_t start, Py_ssize_t body,
        Py_ssize_t end
    ) except -2
