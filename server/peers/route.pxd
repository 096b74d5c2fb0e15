# C types for route.py.

cimport cython

from midge.protocol.frame cimport Frame
from midge.server.peers.link cimport Branch, Link
from midge.server.peers.link_commands cimport LinkCommands
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.sublist.subscription cimport RemoteSubscription

cdef int _ROUTE
cdef Py_ssize_t _SUBJECT_MIN


cdef class RouteCommands(LinkCommands):
    @cython.locals(account=Account)
    cpdef Branch make_branch(self, bytes name)
    @cython.locals(here=RouteBranch, origin=bytes)
    cpdef Branch present(self)
    cpdef Branch source_of(self, Frame frame)


cdef class RouteBranch(Branch):
    cpdef void leave_account(self, Account account) except *
    @cython.locals(origin=str, head=bytes)
    cpdef bint forward(self, Client publisher, Frame frame, list queues) except -1
    @cython.locals(link=Link, allowed=Frame)
    cdef bint _send_from_leaf(
        self, Client publisher, Frame frame, bytes head, list queues
    ) except -1
    cpdef bint takes_run(self, Client publisher, Frame frame) except -1


@cython.locals(branch=Branch)
cdef str _origin_of(Client publisher)
