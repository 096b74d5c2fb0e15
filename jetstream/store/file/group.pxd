cimport cython

from midge.jetstream.store cimport numbers
from midge.jetstream.store.file cimport records

cdef Py_ssize_t _BUFFER, _RECENT_BYTES, _JOINED, _BUFFER_KEPT


cpdef Py_ssize_t pages(Py_ssize_t size) noexcept


@cython.final
cdef class Segment:
    cdef readonly unsigned long long number
    cdef public object file
    cdef public Py_ssize_t end, allocated, promised, zeroed_from, zeroed_to, warm_to
    cdef public bint is_new, is_damaged, is_rewritten, is_unsynced, has_erasures
    cdef public Py_ssize_t erasures
    cdef public unsigned long long purged_group
    cdef public Py_ssize_t live_bytes, message_bytes
    cdef public bint holds_more


@cython.final
cdef class Group:
    cdef readonly unsigned long long number
    cdef readonly Segment segment
    cdef readonly Py_ssize_t base
    cdef public bytearray data
    cdef readonly list streams
    cdef public list lasts
    cdef readonly list barriers, erasures, overwrites
    cdef public Py_ssize_t used, count
    cdef public bint is_lone
    cdef readonly bint is_overwriting

    @cython.locals(segment=Segment, end=Py_ssize_t)
    cdef void note_overwriting(self) except *


@cython.final
cdef class RecentGroups:
    cdef list _groups
    cdef Py_ssize_t _bytes
    cdef bytearray _spare, _small_spare

    @cython.locals(data=bytearray)
    cpdef bytearray take_buffer(self)
    @cython.locals(oldest=Group)
    cpdef void keep(self, Group group) except *
    @cython.locals(group=Group)
    cpdef Group find(self, Segment segment, Py_ssize_t offset)
    @cython.locals(last=Group, is_next=bint)
    cdef bint _join(self, Group group) except *
