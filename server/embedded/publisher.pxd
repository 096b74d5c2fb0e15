cimport cython

from midge.protocol.frame cimport Frame, compose, with_subject
from midge.server.internal.internal_publisher cimport InternalPublisher
from midge.server.routing.account cimport Account
from midge.sublist.bounded_cache cimport BoundedCache
from midge.sublist.subjects cimport is_valid_publish_subject


cdef class Publisher:
    cdef readonly object broker, loop
    cdef readonly long long in_messages, in_bytes
    cdef InternalPublisher _internal
    cdef BoundedCache _subjects

    @cython.locals(topic=bytes, answer_to=bytes, block=bytes, content=bytes, size=Py_ssize_t,
                   largest=Py_ssize_t, home=Account, frame=Frame)
    cpdef Py_ssize_t send(
        self, object subject, object payload, object headers, object reply, str account
    ) except -1
    cpdef Account known_account(self, str name)
    @cython.locals(known=bytes)
    cdef bytes _valid(self, object subject, str what)
    cpdef Py_ssize_t _mapped(self, Account account, bytes subject, Frame frame) except -1


cpdef bytes literal_subject(object subject, str what=*)
cpdef bytes payload_bytes(object payload)
