# C types for ready_sockets.py.

cimport cython

from midge.server.routing cimport plain_socket
from midge.server.routing.router cimport Router


cdef class Readable:
    cpdef void on_readable(self, bint is_ending) except *


@cython.final
cdef class ReadySockets:
    cdef object _loop
    cdef Router _router
    cdef object _wanted
    cdef object _epoll
    cdef int _descriptor
    cdef list _readers
    cdef list _found

    @cython.locals(is_postponed=bint, found=list, number=int, is_ending=bint, reader=Readable)
    cpdef bint read(self) except -1
