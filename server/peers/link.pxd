# C types for link.py.

cimport cython

from midge.protocol.frame cimport Frame, without_headers
from midge.protocol.link cimport LinkParser
from midge.server.auth.permissions cimport Permissions
from midge.server.channels.channel cimport Channel, ChannelOwner
from midge.server.peers.announced cimport Announced
from midge.server.peers.outbound cimport Heads, LinkOutbound
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.routing.passage cimport passes

cdef int BEHIND, BOTH, CLOSED, DENIED_SUBJECTS, NO_HEADERS, OVERSIZED, REPLY_GRANTS, _CONNECTED
cdef bytes _PING


cdef class Link(ChannelOwner):
    cdef readonly object broker
    cdef readonly LinkParser parser
    cdef readonly object end
    cdef readonly LinkOutbound link_outbound
    cdef readonly bint is_ready
    cdef public str name
    cdef readonly Announced announced
    cdef public long long peer_protocol
    cdef readonly Permissions send_rules
    cdef readonly Permissions take_rules
    cdef readonly Py_ssize_t peer_max_payload
    cdef public bint names_origins
    cdef readonly bint is_dedicated
    cdef public object commands
    cdef public str cluster
    cdef public str remote_account
    cdef public double joined_at
    cdef list _last_interest
    cdef list _asked

    cpdef void send_ping(self) except *
    cpdef void opened(self) except *
    cpdef void closed(self) except *
    cpdef void lost(self) except *
    cpdef void answered(self) except *
    cpdef void pass_as(self, int role) except *
    cpdef Account account_of_lines(self)
    @cython.locals(allowed=Frame)
    cpdef bint send_message(
        self, Client publisher, Frame frame, Heads heads, list queues
    ) except -1
    @cython.locals(checks=int)
    cpdef bint sends_run(self, Frame frame) except -1
    cpdef void send_run(
        self, Frame frame, Heads heads, Py_ssize_t count, list queues
    ) except *
    # `except *` would take a call after each message.
    cpdef bint note_sent(self, Py_ssize_t count, Py_ssize_t size) except -1
    @cython.locals(checks=int, subject=bytes, reply=bytes)
    cpdef Frame sendable(self, Client publisher, Frame frame)


cdef class Branch(Client):
    cdef readonly Link link
    cdef readonly bytes name
    cdef readonly bytes account_word
    cdef readonly str cluster
    cdef public str origin
    cdef public object announcer
    cdef public list interest
    cdef readonly Heads heads

    cpdef void send(self, bytes piece) except *
    @cython.locals(own=str)
    cpdef bint reaches(self, Client link, str origin) except -1
    cpdef bint run_goes_on(self, unsigned long long generation) except -1
    cpdef void pause_for(self, Client receiver) except *
    cpdef bint forward(self, Client publisher, Frame frame, list queues) except -1
    cpdef bint takes_run(self, Client publisher, Frame frame) except -1
    cpdef void forward_run(self, Frame frame, Py_ssize_t count, list queues) except *
