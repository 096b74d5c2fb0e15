# C types for channel_owner.py.

cimport cython

from midge.protocol.stream_parser cimport StreamParser
from midge.server.channels.channel cimport Channel
from midge.server.channels.channel_hooks cimport ChannelHooks
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.routing.router cimport Router

cdef Py_ssize_t _DELIVERY_BYTES


cdef class ChannelOwner(ChannelHooks):
    cdef object __weakref__
    cdef readonly Router router
    cdef public Channel channel

    cpdef void finishing(self) except *
    cpdef void on_budget_spent(self) except *
    cpdef void flushed(self) except *
    cpdef bint run_goes_on(self, unsigned long long generation) except -1
    cpdef void hold_for(self, Client receiver) except *
    cpdef void held(self, Client publisher) except *
    cpdef void unheld(self, Client publisher) except *
    cpdef void release(self) except *
    cpdef void send(self, bytes piece) except *
    @cython.locals(channel=Channel, parser=StreamParser)
    cpdef void spend(self, Py_ssize_t cost_bytes) except *
    cpdef Account account_of_lines(self)
    cpdef void count_lines(
        self, Account account, Py_ssize_t count, Py_ssize_t payload_bytes, Py_ssize_t line_bytes
    ) except *
