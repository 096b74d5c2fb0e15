# C types for link.py.

cimport cython

from midge.protocol cimport lines, memory
from midge.protocol.frame cimport Frame, compose
from midge.protocol.link cimport BlockHandler, LinkParser
from midge.server.peers.link cimport Branch, Link
from midge.server.peers.link_commands cimport LinkCommands
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


cdef class WorkerCommands(LinkCommands):
    cdef dict _receivers

    cpdef void lost(self) except *
    cpdef Branch make_branch(self, bytes name)
    @cython.locals(here=WorkerBranch)
    cpdef Branch present(self)
    @cython.locals(here=WorkerBranch, parser=LinkParser)
    cpdef Branch source_of(self, Frame frame)
    @cython.locals(branch=WorkerBranch)
    cpdef Account account_of_lines(self)
    @cython.locals(sublist=SubList, view=SubListResult)
    cpdef bint goes_only_to(self, WorkerBranch branch, Subscription subscription) except -1
    @cython.locals(branch=WorkerBranch, remote=RemoteSubscription, from_where=str)
    cpdef void on_link_subscribe(self, bytes subject, bytes queue, long long weight) except *
    @cython.locals(branch=WorkerBranch)
    cpdef void on_link_unsubscribe(self, bytes subject, bytes queue) except *
    cpdef void take_numbered(self, bytes subject, Py_ssize_t number, bytes sid) except *
    @cython.locals(known=RemoteSubscription)
    cdef void _note_plain(self, WorkerBranch branch, RemoteSubscription remote) except *
    @cython.locals(subscription=RoutedSubscription, client=Client)
    cdef void take_block(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t number,
        Py_ssize_t count, Py_ssize_t size
    ) except *
    @cython.locals(checks=int)
    cdef bint _takes_block(self, RoutedSubscription subscription, Client client) except -1
    @cython.locals(branch=WorkerBranch, block=bytes, at=Py_ssize_t, body=Py_ssize_t, subject=bytes,
                   size=bytes)
    cdef void _take_one_by_one(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) except *


cdef class Blocks(BlockHandler):
    cdef WorkerCommands _commands

    cdef void take_block(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t number,
        Py_ssize_t count, Py_ssize_t size
    ) except *
    cpdef void take_numbered(self, bytes subject, Py_ssize_t number, bytes sid) except *


cdef class WorkerBranch(Branch):
    cdef readonly bytes announcement
    cdef WorkerCommands _commands
    cdef int _border

    cpdef Client lines_to(self, Subscription subscription)
    cpdef bint reaches(self, Client link, str origin) except -1
    @cython.locals(branch=WorkerBranch)
    cpdef WorkerBranch carried(self)
    @cython.locals(link=Link)
    cpdef bint forward(self, Client publisher, Frame frame, list queues) except -1
    cpdef void forward_run(self, Frame frame, Py_ssize_t count, list queues) except *
    @cython.locals(link=Link)
    cdef void _send_as_they_lie(self, Frame frame, Py_ssize_t count) except *


cdef class Numbered(Client):
    cdef readonly WorkerBranch branch
    cdef readonly Link link
    cdef readonly Py_ssize_t number
    cdef readonly bytes sid
    cdef readonly str cluster

    cpdef Client carried(self)
    @cython.locals(link=Link)
    cpdef bint forward(self, Client publisher, Frame frame, list queues) except -1
    @cython.locals(link=Link)
    cpdef bint forward_parts(self, bytes subject, bytes payload) except -1
    cpdef bint takes_run(self, Client publisher, Frame frame) except -1
    cpdef void forward_run(self, Frame frame, Py_ssize_t count, list queues) except *
    @cython.locals(link=Link, base=Py_ssize_t)
    cdef void _send_in_block(self, Frame frame, Py_ssize_t count) except *


cdef class NumberedSubscription(RemoteSubscription):
    cdef WorkerBranch _branch
    cdef Py_ssize_t _number
    cdef bytes _sid
    cdef Numbered _receiver


cdef bint _is_bare(Frame frame) except -1

cdef bint _is_plain_publish(Frame frame) except -1
