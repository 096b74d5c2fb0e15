# C types for link.py.

cimport cython

from midge.protocol.frame cimport Frame
from midge.protocol.route cimport RouteParser
from midge.server.links.link cimport Link
from midge.server.links.outbound cimport Heads
from midge.server.peers.passage cimport passes
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.routing.outbound cimport ChunkPool
from midge.sublist.subscription cimport RemoteSubscription

cdef int _LEAF, _HUB, BOTH
cdef Py_ssize_t _SUBJECT_MIN
cdef ChunkPool _NO_CHUNKS


cdef class RouteLink(Link):
    cdef readonly dict branches
    cdef public bint names_origins
    cdef RouteBranch _here
    cdef bytes _here_name

    @cython.locals(found=RouteBranch, account=Account)
    cpdef RouteBranch branch(self, bytes name)
    @cython.locals(name=bytes, here=RouteBranch, origin=bytes)
    cdef RouteBranch _at_hand(self)
    @cython.locals(branch=RouteBranch)
    cpdef void drop_interest(self) except *
    cpdef void lost(self) except *
    @cython.locals(here=RouteBranch, origin=str, told=RemoteSubscription)
    cpdef void on_link_subscribe(self, bytes subject, bytes queue, long long weight) except *
    @cython.locals(here=RouteBranch)
    cpdef void on_link_unsubscribe(self, bytes subject, bytes queue) except *
    @cython.locals(here=RouteBranch)
    cpdef bint on_publish(self, Frame frame) except -1
    @cython.locals(here=RouteBranch)
    cpdef Py_ssize_t on_publish_run(self, Frame frame, Py_ssize_t count) except -1
    @cython.locals(here=RouteBranch)
    cpdef void on_link_message(self, Frame frame, list queues) except *
    @cython.locals(allowed=Frame)
    cpdef bint send_from_leaf(
        self, Client publisher, Frame frame, bytes head, list queues
    ) except -1


cdef class RouteBranch(Client):
    cdef readonly RouteLink link
    cdef readonly bytes name
    cdef readonly str cluster
    cdef public str origin
    cdef public object told
    cdef public dict interest
    cdef Heads _heads

    cpdef void send(self, bytes piece) except *
    cpdef void move_to(self, Account account) except *
    @cython.locals(own=str)
    cpdef bint reaches(self, Client link, str origin) except -1
    cpdef bint run_goes_on(self, unsigned long long generation) except -1
    cpdef void hold_for(self, Client receiver) except *
    @cython.locals(origin=str, head=bytes)
    cpdef bint forward(self, Client publisher, Frame frame, list queues) except -1
    cpdef bint takes_run(self, Client publisher, Frame frame) except -1
    cpdef void forward_run(self, Frame frame, Py_ssize_t count, list queues) except *


@cython.locals(cluster=str)
cdef str _origin_of(Client publisher)
