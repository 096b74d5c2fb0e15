from midge.protocol.frame cimport Frame
from midge.server.routing.account cimport Account
from midge.server.routing.outbound cimport Outbound
from midge.sublist.subscription cimport Subscription

cdef int CLOSED, _CLIENT


cdef class Client:
    cdef readonly long long cid
    cdef public Account account
    cdef readonly Outbound outbound
    cdef public int deliver_checks
    cdef public unsigned char dirty
    cdef public Client next_dirty
    cdef readonly unsigned char role
    cdef public long long in_messages, in_bytes, out_messages, out_bytes

    cpdef Frame checked(self, Subscription subscription, Client publisher, Frame frame)
    cpdef void finished(self, Subscription subscription) except *
    cpdef bint has_room(self, Client publisher) except -1
    cpdef void flushed(self) except *
    cpdef bint run_goes_on(self, unsigned long long generation) except -1
    cpdef void pause_for(self, Client receiver) except *
    cpdef void release(self) except *
    cpdef dict held_publishers(self)
    cpdef bint reaches(self, Client link, str origin) except -1
    cpdef bint forward(self, Client publisher, Frame frame, list queues) except -1
    cpdef bint forward_parts(self, bytes subject, bytes payload) except -1
    cpdef Client lines_to(self, Subscription subscription)
    cpdef bint takes_run(self, Client publisher, Frame frame) except -1
    cpdef void forward_run(self, Frame frame, Py_ssize_t count, list queues) except *
