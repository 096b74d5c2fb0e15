cimport cython

cdef dict _NONE


@cython.final
@cython.no_gc
cdef class Incoming:
    cdef public bytes subject, reply, headers, payload
    cdef public dict values
    cdef public bint is_sourced, is_checked
    cdef public bytes msg_id, rollup
    cdef public long long ttl_s
    cdef public unsigned long long seq
    cdef public long long time_ns
    cdef public object increment, counter_value
    cdef public unsigned long long duplicate_of
    cdef public bytes batch_id
    cdef public unsigned long long batch_size

    cpdef bytes value(self, bytes name)
