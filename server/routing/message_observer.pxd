from midge.protocol.frame cimport Frame
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client


cdef class MessageObserver:
    cpdef bint sees_runs(self) noexcept
    cpdef void run_routed(
        self, Account account, Client publisher, Frame frame, Py_ssize_t count, Py_ssize_t plain
    ) except *
    cpdef void message_routed(
        self, Account account, Client publisher, Frame frame, Py_ssize_t plain, Py_ssize_t queued
    ) except *
