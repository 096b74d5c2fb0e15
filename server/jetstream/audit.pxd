# C types for audit.py.

from midge.server.jetstream.sink cimport AccountSink


cdef class Audit:
    cdef object _context
    cdef AccountSink _sink
    cdef object _new_id

    cpdef void answered(self, object request, bytes answer) except *
