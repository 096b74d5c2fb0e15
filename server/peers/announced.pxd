# C types for announced.py.

cimport cython

from midge.server.routing.client cimport Client
from midge.sublist.sublist cimport SubList
from midge.sublist.subscription cimport RemoteSubscription

cdef Py_ssize_t STEP_BYTES, _USUAL_TOKENS, _USUAL_BYTES, _BEGUN_BYTES, _ENDED_BYTES


@cython.final
cdef class Announced:
    cdef readonly Py_ssize_t count
    cdef public Py_ssize_t max_size
    cdef Py_ssize_t _size

    @cython.locals(remotes=SubList, found=list, one=RemoteSubscription)
    cpdef RemoteSubscription known(
        self, object link, Client source, bytes subject, bytes queue, str origin
    )
    @cython.locals(known=RemoteSubscription, change="long long", sublist=SubList,
                   steps="long long", size=Py_ssize_t, interest=list)
    cpdef void begin(self, object link, Client source, RemoteSubscription remote) except *
    @cython.locals(remote=RemoteSubscription, last=RemoteSubscription, sublist=SubList,
                   steps="long long", interest=list)
    cpdef void end(
        self, object link, Client source, bytes subject, bytes queue, str origin
    ) except *
    cpdef void forget_size(self, RemoteSubscription remote) except *
    cpdef void drop_all(self, object link) except *
    cpdef void drop(self, object link, Client source, list left) except *
    @cython.locals(remote=RemoteSubscription)
    cdef void _drop(
        self, object link, Client source, list left, Py_ssize_t most
    ) except *


@cython.locals(subject=bytes, queue=bytes, named=Py_ssize_t, size=Py_ssize_t, tokens=Py_ssize_t)
cdef Py_ssize_t _size_of(RemoteSubscription remote) except -1
