# C types for gate.py.

from midge.server.routing.client cimport Client


cdef class Gate(Client):
    cdef readonly bint is_shut
    cdef dict _holding

    cpdef void held(self, Client publisher) except *
    cpdef void unheld(self, Client publisher) except *
