# C types for link.py.

cimport cython

from midge.protocol.frame cimport Frame
from midge.protocol.leaf cimport LeafParser
from midge.server.peers.link cimport Link
from midge.server.peers.outbound cimport Heads
from midge.server.routing.passage cimport passes
from midge.server.routing.client cimport Client
from midge.sublist.subscription cimport RemoteSubscription

cdef int _LEAF, BOTH
cdef Heads _HEADS


cdef class LeafLink(Link):
    cdef public str cluster
    cdef public str remote_account
    cdef public double joined_at
    cdef public object told
    cdef public list interest
    cdef readonly list last_interest

    cpdef void closed(self) except *

    @cython.locals(told=RemoteSubscription)
    cpdef void on_link_subscribe(self, bytes subject, bytes queue, long long weight) except *
    cpdef void on_link_unsubscribe(self, bytes subject, bytes queue) except *
    cpdef void pass_as(self, int role) except *
    @cython.locals(cluster=str)
    cpdef bint reaches(self, Client link, str origin) except -1
    cpdef bint forward(self, Client publisher, Frame frame, list queues) except -1
    cpdef bint takes_run(self, Client publisher, Frame frame) except -1
    cpdef void forward_run(self, Frame frame, Py_ssize_t count, list queues) except *
