# C types for receiver.py.

cimport cython

from midge.jetstream.sink cimport Receiver
from midge.jetstream.store.interface cimport MessageView
from midge.protocol cimport digits, memory
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.routing.router cimport Router
from midge.server.routing.subscription cimport RoutedSubscription
from midge.sublist.result cimport SubListResult

cdef int BEHIND, NO_HEADERS, _SPACE, _CR, _LF
cdef Py_ssize_t _ROOM_BYTES
cdef bytes _MSG, _HMSG


@cython.final
cdef class ProducersTurn:
    cdef public Client producer


cdef class ClientReceiver(Receiver):
    cdef Account _account
    cdef unsigned long long _generation
    cdef RoutedSubscription _subscription
    cdef Client _client
    cdef Router _router
    cdef bytearray _line
    cdef ProducersTurn _turn

    @cython.locals(checks=int)
    cpdef bint is_open(self, MessageView message) except -1
    @cython.locals(client=Client, end=Py_ssize_t)
    cpdef void take(
        self, MessageView message, bytearray reply, Py_ssize_t reply_end
    ) except *
    @cython.locals(sid=bytes, verb=bytes, room=Py_ssize_t, line="unsigned char *",
                   at=Py_ssize_t, has_headers=bint)
    cdef Py_ssize_t _write_line(
        self, MessageView message, bytearray reply, Py_ssize_t reply_end
    ) except -1


@cython.locals(subscription=RoutedSubscription, client=Client)
cpdef ClientReceiver receiver_of(
    Account account, SubListResult result, Router router, ProducersTurn turn, bytes subject
)
