cimport cython

from midge.sublist cimport octets
from midge.sublist.subjects cimport has_empty_token

cdef int _DOT, _GREATER


@cython.final
cdef class PatternSet:
    cdef _Node _root
    cdef Py_ssize_t _size
    cdef readonly long long steps

    cpdef bint matches(self, bytes subject) except -1
    cpdef bint covers(self, bytes subject) except -1
    cpdef list matching_queues(self, bytes subject)
    cpdef list covering_queues(self, bytes subject)
    @cython.locals(length=Py_ssize_t, data="const unsigned char *", others=list, is_plain=bint,
                   node=_Node, one=_Node, two=_Node, start=Py_ssize_t, end=Py_ssize_t,
                   is_last=bint, fwc=_Node)
    cdef bint _find(self, bytes subject, bint whole, list queues) except -1


@cython.final
cdef class _Node:
    cdef readonly bytes token
    cdef public bint is_plain
    cdef public PatternSet queues
    cdef public _Node pwc, fwc
    cdef list _table
    cdef Py_ssize_t _count

    @cython.locals(table=list, most=Py_ssize_t, place=Py_ssize_t, node=_Node)
    cdef _Node find(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end)
    @cython.locals(node=_Node)
    cpdef _Node ensure(self, bytes token)
    cdef void add_queues(self, list queues) except *
    @cython.locals(present=list, known=_Node)
    cdef void _put(self, _Node node) except *
