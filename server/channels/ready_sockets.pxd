cimport cython

from midge.server.channels.busy_poll cimport BusyPoll
from midge.server.routing cimport plain_socket
from midge.server.routing.router cimport Router


cdef class Readable:
    cpdef void on_readable(self, bint is_ending) except *
    cpdef int read_next(self, int others, long long longest_ns) except -2


@cython.final
cdef class ReadySockets:
    cdef object _loop
    cdef Router _router
    cdef public BusyPoll busy_poll
    cdef int _last, _lone
    cdef bint _is_closed
    cdef object _wanted, _epoll
    cdef int _descriptor
    cdef list _readers, _found

    @cython.locals(busy_poll=BusyPoll)
    cpdef void read(self) except *
    @cython.locals(is_postponed=bint, reader=Readable, outcome=int)
    cdef void _read_next(self, BusyPoll busy_poll) except *
    @cython.locals(is_postponed=bint, found=list, number=int, is_ending=bint, reader=Readable,
                   count=int, last=int)
    cdef void _read_ready(self) except *
