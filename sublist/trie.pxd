cimport cython

from midge.sublist.result cimport QueueGroup, SubListResult
from midge.sublist.subjects cimport has_empty_token
from midge.sublist.subscription cimport Subscription

cdef int _DOT, _NOT_HELD, _LEFT, _ENDED


@cython.no_gc
cdef class Node:
    cdef public Subscription only
    cdef public list plain
    cdef public dict queues
    cdef public Level below
    cdef public SubListResult result

    @cython.locals(queue=bytes, members=list)
    cpdef bint add(self, Subscription subscription) except -1
    @cython.locals(members=list, slot=Py_ssize_t, last=Subscription)
    cpdef int discard(self, Subscription subscription) except -1
    cpdef list interest(self)
    @cython.locals(members=list)
    cpdef Py_ssize_t count(self, bytes queue) except -1
    cpdef bint is_inhabited(self)
    cpdef bint is_empty(self)
    cpdef list subscriptions(self)
    cpdef list having(self, bytes queue)
    @cython.locals(members=list, known=list)
    cpdef void collect(self, list plain, dict queues) except *
    cdef list _members(self, bytes queue)
    cdef void _drop(self, bytes queue) except *


@cython.no_gc
cdef class Level:
    cdef public dict nodes
    cdef public Node pwc, fwc

    cpdef Node find(self, bytes token)
    @cython.locals(node=Node)
    cpdef Node ensure(self, bytes token)
    cpdef void prune(self, bytes token) except *
    cpdef bint is_empty(self)


cdef class Trie:
    cdef Level _root
    cdef readonly long long visited
    cdef readonly Py_ssize_t prefix_from
    cdef readonly bint is_last_token

    @cython.locals(level=Level, tokens=list, node=Node, i=Py_ssize_t)
    cpdef Node ensure(self, bytes subject)
    @cython.locals(level=Level, node=Node)
    cpdef Node at(self, bytes subject)
    @cython.locals(tokens=list, levels=list, path=list, node=Node, depth=Py_ssize_t,
                   outcome=int)
    cpdef int discard(self, Subscription subscription) except -1
    @cython.locals(found=list, length=Py_ssize_t, data="const unsigned char *", others=list,
                   level=Level, below=Level, start=Py_ssize_t, end=Py_ssize_t, node=Node,
                   is_only_path=bint)
    cpdef list find(self, bytes subject)


cpdef SubListResult build_result(list plain, dict queues, Py_ssize_t turn)
