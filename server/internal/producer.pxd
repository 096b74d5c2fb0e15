# C types for producer.py.

from midge.server.routing.client cimport Client


cdef class Producer(Client):
    cdef readonly Client held_by
    cdef public object released

    cpdef void pause_for(self, Client receiver) except *
    cpdef void release(self) except *
