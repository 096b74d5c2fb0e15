cimport cython

from midge.jetstream.consumer.consumer_host cimport ConsumerHost


@cython.final
cdef class ConsumerEvents:
    cdef ConsumerHost _host
    cdef readonly bytes name

    cpdef void created(self) except *
    cpdef void deleted(self) except *
    @cython.locals(host=ConsumerHost, subject=bytes)
    cdef void _advise(self, bytes kind, str type_name, dict fields, dict first=*) except *
    @cython.locals(host=ConsumerHost)
    cdef void _send(self, bytes subject, str type_name, dict fields, dict first) except *
