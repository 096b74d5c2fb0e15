cimport cython

from midge.protocol cimport memory
from midge.protocol.frame cimport Frame
from midge.server.auth.permissions cimport PermissionRules, Permissions
from midge.server.channels.channel cimport ChannelOwner
from midge.server.routing.client cimport Client

cdef Py_ssize_t STEP_BYTES


@cython.final
cdef class DeliverDenials:
    cdef Permissions _permissions
    cdef bytes _subject, _queue

    @cython.locals(start=Py_ssize_t, end=Py_ssize_t, last=bytes, subject=bytes,
                   rules=PermissionRules, steps="long long", may_deliver=bint)
    cpdef bint permit(self, bytes queue, Client publisher, Frame frame) except -1
