cimport cython

from midge.jetstream.store cimport numbers
from midge.jetstream.store.disk cimport Write
from midge.jetstream.store.file cimport records
from midge.jetstream.store.file.group cimport Group, RecentGroups, Segment
from midge.jetstream.store.file.space cimport NextSegment, Space
from midge.jetstream.store.interface cimport GroupListener

cdef Py_ssize_t _RESERVE, _GROWN_MAX, _LONE_COUNT, _LONE_BYTES


cdef class Log:
    cdef readonly object disk, turns, buffers, fetches
    cdef readonly unsigned int seed
    cdef public unsigned long long group, durable
    cdef public bint full
    cdef readonly Space space
    cdef public object failure
    cdef public bint sync_each
    cdef readonly list segments
    cdef public unsigned long long synced_segment
    cdef public Py_ssize_t synced_position, marked_position
    cdef readonly unsigned long long written_groups
    cdef object _request_flush
    cdef list _listeners
    cdef Group _open, _flying
    cdef list _erasing, _waiting, _chores
    cdef tuple _chore
    cdef bint _had_chore
    cdef RecentGroups _recent
    cdef bint _is_wanted, _is_stuck, _is_leaving, _was_small
    cdef NextSegment _next
    cdef public object on_failure, on_records, on_begun, before_removal
    cdef bint _is_fresh
    cdef public bint is_pressed
    cdef public Py_ssize_t pressed_bytes
    cdef public object on_pressure
    cdef readonly object committer

    @cython.locals(group=Group, at=Py_ssize_t, end=Py_ssize_t, needed=Py_ssize_t,
                   size=Py_ssize_t)
    cpdef Py_ssize_t reserve(self, Py_ssize_t length, bint is_message) except -1
    @cython.locals(is_pressed=bint)
    cdef void _see_pressure(self) except *
    cpdef void admit(self) except *
    cpdef Group opened(self)
    @cython.locals(group=Group)
    cpdef unsigned long long join(self, object stream) except 0
    @cython.locals(group=Group)
    cpdef Group find(self, Segment segment, Py_ssize_t offset)
    @cython.locals(segment=Segment, base=Py_ssize_t, is_whole=bint)
    cdef Group _begin(self)
    cdef Py_ssize_t _end_of(self, Segment segment) except -1
    cdef bint _roll(self, Segment old, Py_ssize_t end) except -1
    cdef void _extend(self, Segment segment, Py_ssize_t needed, bint is_message) except *
    cdef void _submit(self, Group group) except *
    @cython.locals(write=Write)
    cdef void _write(self, Group group) except *
    @cython.locals(group=Group, segment=Segment, listener=GroupListener,
                   index=Py_ssize_t)
    cdef void _succeeded(self) except *
