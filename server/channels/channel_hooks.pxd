# C types for owner.py.

from midge.server.routing.client cimport Client


cdef class ChannelHooks(Client):
    cpdef void opened(self) except *
    cpdef void closed(self) except *
    cpdef void finishing(self) except *
    cpdef void lost(self) except *
    cpdef bint is_busy(self) except -1
    cpdef void send_ping(self) except *
    cpdef void say_last(self, str wire) except *
