cimport cython

from midge.protocol.frame cimport Frame, compose
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.routing.router cimport Router
from midge.sublist.result cimport SubListResult


cdef class InternalPublisher:
    cdef readonly Router router

    cpdef Py_ssize_t route_frame(
        self, Account account, SubListResult result, Frame frame, Client publisher,
        Frame over=*
    ) except -1
    @cython.locals(mapped=bytes, result=SubListResult)
    cpdef Py_ssize_t publish(
        self, Account account, bytes subject, bytes payload, bytes reply=*, bytes headers=*,
        Client publisher=*, bint is_mapped=*
    ) except -1
