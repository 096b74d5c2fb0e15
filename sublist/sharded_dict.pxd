cimport cython


cdef Py_ssize_t _PARTS, _PART_BITS, _WHOLE_MAX


@cython.final
cdef class ShardedDict:
    cdef Py_ssize_t _count
    cdef dict _whole
    cdef list _parts

    @cython.locals(whole=dict, parts=list, part=dict)
    cpdef object get(self, bytes key)
    @cython.locals(part=dict)
    cpdef void put(self, bytes key, object value) except *
    cpdef object pop(self, bytes key)
    @cython.locals(part=dict)
    cpdef object pop_any(self)
    cpdef list parts(self)
    cdef dict _part_of(self, bytes key)
    cdef void _spread(self) except *
