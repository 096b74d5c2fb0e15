from midge.jetstream.store.disk cimport Write
from midge.jetstream.store.file cimport native


cdef class CommitThread:
    cdef readonly long long direct_writes
    cdef int _directory
    cdef object _remove_reader, _done
    cdef int _wake_in, _wake_out
    cdef Write _write
    cdef object _segment
    cdef native.midge_writer *_writer

    cpdef void write(self, Write write) except *
    cdef bint _hand_back(self) except *
