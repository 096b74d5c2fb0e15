# C types for leaf.py.

cimport cython

from midge.server.peers.link cimport Link
from midge.server.peers.link_commands cimport LinkCommands
from midge.sublist.subscription cimport RemoteSubscription

cdef int _LEAF


cdef class LeafCommands(LinkCommands):
    @cython.locals(link=Link, told=RemoteSubscription)
    cpdef void on_link_subscribe(self, bytes subject, bytes queue, long long weight) except *
    @cython.locals(link=Link)
    cpdef void on_link_unsubscribe(self, bytes subject, bytes queue) except *
