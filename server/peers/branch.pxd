# C types for branch.py.

cimport cython

from midge.protocol.frame cimport Frame
from midge.server.peers.link cimport Link
from midge.server.peers.outbound cimport Heads
from midge.server.routing.client cimport Client


cdef class Branch(Client):
    cdef readonly Link link
    cdef readonly bytes name
    cdef readonly str cluster
    cdef public object announcer
    cdef public list interest
    cdef readonly Heads heads

    cpdef void send(self, bytes piece) except *
    cpdef bint run_goes_on(self, unsigned long long generation) except -1
    cpdef void pause_for(self, Client receiver) except *
    cpdef bint forward(self, Client publisher, Frame frame, list queues) except -1
    cpdef bint takes_run(self, Client publisher, Frame frame) except -1
    cpdef void forward_run(self, Frame frame, Py_ssize_t count, list queues) except *
