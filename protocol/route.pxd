# C types for route.py.

cimport cython

from midge.protocol.link cimport LinkParser

cdef int _LETTER, _L, _A, _H, _S, _U, _WITH_ACCOUNT, _WITH_ORIGIN


cdef class RouteParser(LinkParser):
    cdef readonly bytes announced

    cdef bint _speaks(self, int byte) except -1
    @cython.locals(verb=bytes)
    cdef Py_ssize_t _take_line(
        self, list tokens, const unsigned char *data, Py_ssize_t start, Py_ssize_t body,
        Py_ssize_t end
    ) except -2
    cdef list _named(self, list tokens)
    cdef list _named_with_origin(self, list tokens)
