cimport cython

from midge.server.routing.client cimport Client

cdef Py_ssize_t _SLIGHT, _SLIGHT_TOTAL


cdef class Gate(Client):
    cdef readonly bint is_shut
    cdef dict _holding, _passed
    cdef Py_ssize_t _passed_total

    @cython.locals(passed=Py_ssize_t)
    cpdef bint admits(self, Client publisher, Py_ssize_t size) except -1
    cpdef dict held_publishers(self)
