cimport cython

from midge.protocol.inbound cimport Inbound
from midge.protocol.stream_parser cimport StreamParser
from midge.server.channels.fair_turns cimport FairTurns
from midge.server.channels.host cimport Host

cdef int _HALTED, _HELD_BACK, _RESTING, _TURN_OVER, _ENDED
cdef Py_ssize_t _HELD_BYTES, _PORTION_BYTES, _READ_IN_A_ROW_BYTES
cdef double _BUSY_S


cdef class Reading:
    cdef public object transport
    cdef Host _host
    cdef StreamParser _parser
    cdef Inbound _inbound
    cdef object _channel
    cdef int _halts, _stops
    cdef Py_ssize_t _read_bytes
    cdef bint _is_last
    cdef double _began_at, _busy_s
    cdef bint _drew

    @cython.locals(now=double)
    cdef double begin(self, Py_ssize_t count, bint is_last) except? -1
    @cython.locals(parser=StreamParser, is_full=bint)
    cdef bint finish(self) except -1
    cpdef void halt(self, int why) except *
    cpdef void unhalt(self, int why) except *
    @cython.locals(busy_s=double)
    cdef void on_budget_spent(self) except *
    @cython.locals(parser=StreamParser, drawn=Py_ssize_t)
    cdef bint may_spend(self, Py_ssize_t cost_bytes) except -1
