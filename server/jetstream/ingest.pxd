cimport cython

from midge.jetstream.store.published cimport PublishedLines
from midge.jetstream.stream.stream cimport Stream
from midge.jetstream.store.store cimport Store
from midge.protocol.frame cimport Frame
from midge.protocol.stream_parser cimport LineTaker, StreamParser
from midge.server.channels.channel cimport ChannelOwner
from midge.server.channels.gate cimport Gate
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.routing.subscription cimport RoutedSubscription
from midge.sublist.sublist cimport SubList

cdef Py_ssize_t _PUB_BYTES, _WORK_BYTES
cdef unsigned long long _LEAST_WORK


@cython.locals(owner=ChannelOwner)
cpdef void charge(Client publisher, unsigned long long work) except *


cdef class StreamSubscription(RoutedSubscription):
    cdef readonly Stream stream
    cdef readonly Gate gate
    cdef readonly StreamLines lines

    @cython.locals(gate=Gate, store=Store, before="unsigned long long")
    cpdef bint receive(self, Client publisher, Frame frame) except -1
    @cython.locals(handler=Client, owner=ChannelOwner)
    cdef void _offer_lines(self, Client publisher, Frame frame) except *
    cpdef bint takes_runs(self) noexcept


cdef class StreamLines(LineTaker):
    cdef Stream _stream
    cdef StreamSubscription _subscription
    cdef SubList _sublist
    cdef unsigned long long _generation, _epoch
    cdef PublishedLines _lines

    @cython.locals(store=Store, start=Py_ssize_t, end=Py_ssize_t)
    cdef void learn(self, StreamSubscription subscription, SubList sublist, Frame frame) except *
    @cython.locals(owner=ChannelOwner, account=Account, lines=PublishedLines,
                   position=Py_ssize_t, payload_bytes=Py_ssize_t, found=Py_ssize_t,
                   count=Py_ssize_t)
    cdef Py_ssize_t take_lines(
        self, StreamParser parser, const unsigned char *data, Py_ssize_t start, Py_ssize_t end,
        Py_ssize_t max_control_line
    ) except -1
    @cython.locals(subscription=StreamSubscription, gate=Gate)
    cdef void _settle(
        self, ChannelOwner owner, Account account, Py_ssize_t payload_bytes,
        Py_ssize_t line_bytes
    ) except *
