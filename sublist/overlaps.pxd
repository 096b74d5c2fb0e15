cimport cython

cdef long long _NONE
cdef bytes _PWC, _FWC


@cython.no_gc
cdef class PatternNode:
    cdef public dict nodes
    cdef public PatternNode pwc, fwc
    cdef Py_ssize_t count
    cdef long long least, below

    cdef PatternNode find(self, bytes token)
    @cython.locals(node=PatternNode)
    cdef PatternNode ensure(self, bytes token)
    cdef void drop(self, bytes token) except *
    cpdef bint has_more(self) noexcept


cdef class OverlapIndex:
    cdef PatternNode _root
    cdef list _ones, _others
    cdef long long _best
    cdef bint _is_covering
    cdef readonly Py_ssize_t size
    cdef readonly long long steps

    @cython.locals(node=PatternNode, token=bytes)
    cpdef void insert(self, bytes pattern, long long number=*) except *
    @cython.locals(tokens=list, path=list, node=PatternNode, found=PatternNode, token=bytes,
                   i=Py_ssize_t, before=PatternNode)
    cpdef void remove(self, bytes pattern) except *
    @cython.locals(ones=list, others=list, one=PatternNode, node=PatternNode, below=PatternNode,
                   found=PatternNode)
    cpdef void absorb(self, OverlapIndex other) except *
    @cython.locals(one=PatternNode, other=PatternNode)
    cpdef long long first_overlap(self) except? -1
    @cython.locals(tokens=list, others=list, node=PatternNode, below=PatternNode,
                   pwc=PatternNode, place=Py_ssize_t, last=Py_ssize_t)
    cpdef bint matches(self, bytes subject) except -1
    @cython.locals(one=PatternNode, other=PatternNode)
    cpdef bint has_covered(self) except -1
    cpdef bint overlaps(self, OverlapIndex other) except -1

    cdef void _begin(self, bint is_covering) except *
    cdef void _found(self, long long one, long long other) noexcept
    @cython.locals(pwc=PatternNode, fwc=PatternNode, below=PatternNode)
    cdef void _look_within(self, PatternNode node) except *
    @cython.locals(below=PatternNode)
    cdef void _compare(self, PatternNode one, PatternNode other) except *
    @cython.locals(one=PatternNode, other=PatternNode, other_node=PatternNode)
    cdef void _pair(self, dict ones, dict others) except *
    cdef void _wait(self, PatternNode one, PatternNode other) except *
