# C types for recent.py.

cimport cython

from midge.jetstream.store.file.group cimport Group, Segment

cdef Py_ssize_t _RECENT_BYTES, _BUFFER_KEPT
cdef Py_ssize_t _RECENT_GROUPS


@cython.final
cdef class RecentGroups:
    cdef list _groups
    cdef Py_ssize_t _bytes

    @cython.locals(oldest=Group, spare=bytearray)
    cpdef bytearray keep(self, Group group)
    @cython.locals(group=Group)
    cpdef Group find(self, Segment segment, Py_ssize_t offset)
