cimport cython

from midge.jetstream.environment.sink cimport Receiver
from midge.jetstream.store.interface cimport MessageView
from midge.protocol cimport digits, lines, memory
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.routing.router cimport Router
from midge.server.routing.subscription cimport RoutedSubscription
from midge.sublist.result cimport SubListResult

cdef int BEHIND, NO_HEADERS, _SPACE, _CR, _LF
cdef Py_ssize_t _ROOM_BYTES, _LINE_BYTES
cdef bytes _MSG, _HMSG


@cython.final
cdef class MessageLine:
    cdef readonly bytearray data
    cdef readonly Py_ssize_t end
    cdef bint is_busy

    @cython.locals(verb=bytes, data="unsigned char *", at=Py_ssize_t)
    cdef bint begin(
        self, Py_ssize_t headers_size, const unsigned char *subject, Py_ssize_t start,
        Py_ssize_t end, bytes sid
    ) except -1
    @cython.locals(data="unsigned char *")
    cdef bint add(self, const unsigned char *piece, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(data="unsigned char *", at=Py_ssize_t)
    cdef void finish(self, Py_ssize_t headers_size, Py_ssize_t size) noexcept
    cdef bint append(self, const unsigned char *piece, Py_ssize_t start, Py_ssize_t end) except -1
    cdef bint _make_room(self, Py_ssize_t length) except -1


@cython.final
cdef class ProducersTurn:
    cdef public Client producer


cdef class ClientReceiver(Receiver):
    cdef Account _account
    cdef unsigned long long _generation
    cdef RoutedSubscription _subscription
    cdef Client _client
    cdef Router _router
    cdef ProducersTurn _turn
    cdef bytes _sid
    cdef MessageLine _line

    cdef void aim(
        self, Account account, RoutedSubscription subscription, Client client, Router router,
        ProducersTurn turn, MessageLine line
    ) except *
    @cython.locals(checks=int)
    cpdef bint is_open(self, MessageView message) except -1
    @cython.locals(line=MessageLine, size=Py_ssize_t, headers_size=Py_ssize_t)
    cpdef void take(self, MessageView message, bytearray reply, Py_ssize_t reply_end) except *


@cython.locals(subscription=RoutedSubscription, receiver=ClientReceiver)
cpdef ClientReceiver receiver_of(
    Account account, SubListResult result, Router router, ProducersTurn turn, MessageLine line,
    bytes subject
)

@cython.locals(subscriptions=tuple, subscription=RoutedSubscription)
cpdef RoutedSubscription single(SubListResult result)

@cython.locals(client=Client, checks=int, headers_size=Py_ssize_t, size=Py_ssize_t)
cpdef bint write(
    RoutedSubscription subscription, Router router, MessageLine line, bytes subject, bytes reply,
    bytes headers, bytes payload
) except -1

@cython.locals(client=Client, size=Py_ssize_t)
cpdef bint write_stored(
    RoutedSubscription subscription, Router router, MessageLine line, bytes subject,
    bytearray head, Py_ssize_t head_end, MessageView message
) except -1

cdef bint _append(
    MessageLine line, Client client, const unsigned char *body, Py_ssize_t start, Py_ssize_t end
) except -1

cdef bint _count(
    Client client, RoutedSubscription subscription, Router router, Py_ssize_t size
) except -1
