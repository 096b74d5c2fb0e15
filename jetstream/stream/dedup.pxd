# C types for dedup.py.

cimport cython


@cython.final
cdef class Dedup:
    cdef public long long window_ns
    cdef dict _ids
    cdef object _order

    @cython.locals(seq=object)
    cpdef unsigned long long find(self, bytes msg_id, long long now_ns) except? 0
    cpdef void add(self, bytes msg_id, unsigned long long seq, long long time_ns) except *
    @cython.locals(seq=object, msg_id=bytes)
    cpdef void forget_before(self, long long time_ns) except *
    @cython.locals(seq=object, msg_id=bytes)
    cpdef void take_back(self, unsigned long long after_seq) except *
