cimport cython

from midge.jetstream.consumer.consumer cimport Consumer
from midge.server.channels.fair_turns cimport FairTurns
from midge.server.jetstream.receiver cimport ProducersTurn
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.routing.router cimport Router

cdef Py_ssize_t _PORTION_BYTES
cdef long long _BUSY_NS


cdef class Producer(Client):
    cdef readonly Client held_by
    cdef public object released

    cpdef void pause_for(self, Client receiver) except *
    cpdef void release(self) except *


cdef class Deliveries:
    cdef FairTurns _turns
    cdef Router _router
    cdef object _clock
    cdef Account _account
    cdef ProducersTurn _turn
    cdef object _ready
    cdef set _held
    cdef Producer _producer
    cdef bint _is_waiting

    cpdef void ready(self, Consumer consumer) except *
    @cython.locals(left=Py_ssize_t)
    cdef bint _delivers_at_once(self, Consumer consumer) except -1
    cdef void _wait(self) except *
    @cython.locals(left=Py_ssize_t, consumer=Consumer, now_ns="long long", ends_at_ns="long long")
    cpdef void _take_turn(self) except *
    @cython.locals(producer=Producer)
    cdef Py_ssize_t _deliver_portion(self, Consumer consumer, Py_ssize_t portion) except -1
