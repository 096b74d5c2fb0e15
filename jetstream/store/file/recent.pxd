# C types for recent.py.

cimport cython

from midge.jetstream.store cimport numbers
from midge.jetstream.store.file.group cimport Group, Segment

cdef Py_ssize_t _BUFFER, _RECENT_BYTES, _JOINED, _BUFFER_KEPT


@cython.final
cdef class RecentGroups:
    cdef list _groups
    cdef Py_ssize_t _bytes
    cdef bytearray _spare
    cdef bytearray _small_spare

    @cython.locals(data=bytearray)
    cpdef bytearray take_buffer(self)
    @cython.locals(oldest=Group)
    cpdef void keep(self, Group group) except *
    @cython.locals(group=Group)
    cpdef Group find(self, Segment segment, Py_ssize_t offset)
    @cython.locals(last=Group, is_next=bint)
    cdef bint _join(self, Group group) except *
