# C types for incoming.py.

cimport cython

cdef dict _NONE


@cython.final
@cython.no_gc
cdef class Incoming:
    cdef public bytes subject
    cdef public bytes reply
    cdef public bytes headers
    cdef public bytes payload
    cdef public dict values
    cdef public bint is_sourced
    cdef public bint is_checked
    cdef public bytes msg_id
    cdef public bytes rollup
    cdef public long long ttl_s
    cdef public unsigned long long seq
    cdef public long long time_ns
    cdef public object increment
    cdef public object counter_value
    cdef public unsigned long long duplicate_of
    cdef public bytes batch_id
    cdef public unsigned long long batch_size

    cpdef bytes value(self, bytes name)
