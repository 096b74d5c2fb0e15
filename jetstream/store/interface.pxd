cimport cython

from midge.protocol cimport memory

cdef bytearray _NOTHING


cdef class LoadedMessage:
    cdef readonly unsigned long long seq
    cdef readonly long long time_ns
    cdef readonly bytes subject, headers, payload


@cython.final
cdef class MessageView:
    cdef public unsigned long long seq
    cdef public long long time_ns
    cdef const unsigned char *subject
    cdef public Py_ssize_t subject_start, subject_end
    cdef const unsigned char *body
    cdef public Py_ssize_t headers_start, payload_start, payload_end

    cpdef Py_ssize_t size(self) noexcept
    cpdef LoadedMessage copied(self)


cdef class SubjectState:
    cdef readonly bytes subject
    cdef readonly unsigned long long count, first_seq, last_seq


cdef class GroupListener:
    cpdef void durable(self, unsigned long long group) except *
    cpdef void failed(self, unsigned long long group, object error) except *
