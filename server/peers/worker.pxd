# C types for link.py.

cimport cython

from midge.protocol cimport lines, memory
from midge.protocol.frame cimport Frame, compose
from midge.protocol.worker cimport BlockHandler, WorkerParser
from midge.server.peers.link cimport Link
from midge.server.peers.part cimport Part
from midge.server.routing.passage cimport passes
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.routing.subscription cimport RoutedSubscription
from midge.sublist.result cimport SubListResult
from midge.sublist.sublist cimport SubList
from midge.sublist.subscription cimport RemoteSubscription, Subscription

cdef int _WORKER, BEHIND, BOTH, DIRECT, STREAM, _HARMLESS
cdef bytearray _NOTHING
cdef bytes _CARRIED
cdef Py_ssize_t _PUB_BYTES


cdef class WorkerLink(Link):
    cdef readonly Py_ssize_t index
    cdef dict _parts
    cdef bytes _account
    cdef WorkerPart _part
    cdef WorkerPart _announced
    cdef WorkerParser _lines
    cdef dict _receivers
    cdef list _asked

    @cython.locals(part=WorkerPart)
    cpdef WorkerPart part_of(self, bytes name)
    cpdef list parts(self)
    cpdef void lost(self) except *
    cpdef Client present(self)
    cpdef Client source_of(self, Frame frame)
    cdef WorkerPart _named(self, bytes account)
    cpdef Account account_of_lines(self)
    @cython.locals(sublist=SubList, view=SubListResult)
    cpdef bint sends_only_to(self, WorkerPart part, Subscription subscription) except -1
    cpdef void send_ping(self) except *
    cpdef void on_pong(self) except *
    @cython.locals(part=WorkerPart, told=RemoteSubscription, from_where=str)
    cpdef void on_link_subscribe(self, bytes subject, bytes queue, long long weight) except *
    @cython.locals(part=WorkerPart)
    cpdef void on_link_unsubscribe(self, bytes subject, bytes queue) except *
    cpdef void take_numbered(self, bytes subject, Py_ssize_t number, bytes sid) except *
    @cython.locals(known=RemoteSubscription)
    cdef void _note_plain(self, WorkerPart part, RemoteSubscription told) except *
    @cython.locals(subscription=RoutedSubscription, client=Client)
    cdef void take_block(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t number,
        Py_ssize_t count, Py_ssize_t size
    ) except *
    @cython.locals(checks=int)
    cdef bint _takes_block(self, RoutedSubscription subscription, Client client) except -1
    @cython.locals(part=WorkerPart, block=bytes, at=Py_ssize_t, body=Py_ssize_t, subject=bytes,
                   size=bytes)
    cdef void _take_one_by_one(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) except *
    @cython.locals(base=Py_ssize_t)
    cpdef void send_in_block(self, Numbered receiver, Frame frame, Py_ssize_t count) except *
    cpdef void send_parts_in_block(
        self, Numbered receiver, bytes subject, bytes payload
    ) except *
    cdef void _announce(self, WorkerPart part) except *
    cpdef void send_as_they_lie(self, WorkerPart part, Frame frame, Py_ssize_t count) except *


cdef class Blocks(BlockHandler):
    cdef WorkerLink _link

    cdef void take_block(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t number,
        Py_ssize_t count, Py_ssize_t size
    ) except *
    cpdef void take_numbered(self, bytes subject, Py_ssize_t number, bytes sid) except *


cdef class WorkerPart(Part):
    cdef readonly WorkerLink worker
    cdef readonly bytes announcement
    cdef int _border

    cpdef Client lines_to(self, Subscription subscription)
    cpdef bint reaches(self, Client link, str origin) except -1
    cpdef WorkerPart carried(self)
    @cython.locals(link=WorkerLink)
    cpdef bint forward(self, Client publisher, Frame frame, list queues) except -1
    cpdef void forward_run(self, Frame frame, Py_ssize_t count, list queues) except *


cdef class Numbered(Client):
    cdef readonly WorkerPart part
    cdef readonly WorkerLink link
    cdef readonly Py_ssize_t number
    cdef readonly bytes sid
    cdef readonly str cluster

    cpdef Client carried(self)
    @cython.locals(link=WorkerLink)
    cpdef bint forward(self, Client publisher, Frame frame, list queues) except -1
    cpdef bint forward_parts(self, bytes subject, bytes payload) except -1
    cpdef bint takes_run(self, Client publisher, Frame frame) except -1
    cpdef void forward_run(self, Frame frame, Py_ssize_t count, list queues) except *


cdef class NumberedSubscription(RemoteSubscription):
    cdef WorkerPart _part
    cdef Py_ssize_t _number
    cdef bytes _sid
    cdef Numbered _receiver


cdef bint _is_bare(Frame frame) except -1

cdef bint _is_plain_publish(Frame frame) except -1
