# C types for link.py.

cimport cython

from midge.protocol cimport lines
from midge.protocol.frame cimport Frame
from midge.protocol.route cimport RouteParser
from midge.server.links.link cimport Link
from midge.server.links.outbound cimport Heads
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.sublist.subscription cimport RemoteSubscription

cdef int _WORKER
cdef Py_ssize_t _PUB_BYTES


cdef class WorkerLink(Link):
    cdef readonly Py_ssize_t index
    cdef dict _parts
    cdef bytes _account
    cdef WorkerPart _part
    cdef WorkerPart _announced
    cdef RouteParser _lines
    cdef list _asked

    @cython.locals(part=WorkerPart)
    cpdef WorkerPart part_of(self, bytes name)
    cpdef list parts(self)
    cdef WorkerPart _present(self)
    cdef WorkerPart _publishing(self, Frame frame)
    cdef WorkerPart _named(self, bytes account)
    cpdef void drop_interest(self) except *
    cpdef void send_ping(self) except *
    cpdef void on_pong(self) except *
    @cython.locals(part=WorkerPart, told=RemoteSubscription)
    cpdef void on_link_subscribe(self, bytes subject, bytes queue, long long weight) except *
    @cython.locals(part=WorkerPart)
    cpdef void on_link_unsubscribe(self, bytes subject, bytes queue) except *
    cpdef void on_publish(self, Frame frame) except *
    cpdef Py_ssize_t on_publish_run(self, Frame frame, Py_ssize_t count) except -1
    cpdef void on_link_message(self, Frame frame, list queues) except *
    cpdef void send_as_they_lie(self, WorkerPart part, Frame frame, Py_ssize_t count) except *


cdef class WorkerPart(Client):
    cdef readonly WorkerLink link
    cdef public dict interest
    cdef readonly str cluster
    cdef public object told
    cdef readonly bytes announcement
    cdef Heads _heads

    cpdef bint reaches(self, Client link, str origin) except -1
    @cython.locals(link=WorkerLink)
    cpdef bint forward(self, Client publisher, Frame frame, list queues) except -1
    cpdef bint takes_run(self, Client publisher, Frame frame) except -1
    cpdef void forward_run(self, Frame frame, Py_ssize_t count) except *
    cpdef bint run_goes_on(self, unsigned long long generation) except -1
    cpdef void hold_for(self, Client receiver) except *


cdef bint _is_plain_publish(Frame frame) except -1
