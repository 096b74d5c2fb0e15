# C types for dedup.py.

cimport cython

cdef int _SLICES


@cython.final
cdef class Slice:
    cdef readonly long long end_ns
    cdef readonly list ids


@cython.final
cdef class Dedup:
    cdef public long long window_ns
    cdef bint _is_exact
    cdef dict _ids
    cdef Slice _last
    cdef object _slices
    cdef long long _next_ns

    @cython.locals(seq=object)
    cpdef unsigned long long find(self, bytes msg_id, long long now_ns) except? 0
    @cython.locals(current=Slice, length_ns="long long")
    cpdef void add(self, bytes msg_id, unsigned long long seq, long long time_ns) except *
    @cython.locals(current=Slice)
    cpdef void take_back(self, unsigned long long after_seq) except *
    cdef void _forget_before(self, long long time_ns) except *
