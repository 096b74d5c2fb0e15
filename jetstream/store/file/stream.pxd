# C types for stream.py.

cimport cython

from midge.jetstream.store cimport numbers
from midge.jetstream.store.file cimport records
from midge.jetstream.store.file.group cimport Group, Segment
from midge.jetstream.store.file.log cimport Log
from midge.jetstream.store.indexed cimport Incoming, Run
from midge.jetstream.store.interface cimport StoredMessage
from midge.jetstream.store.lookups cimport SearchableStore
from midge.jetstream.store.message_index cimport Block
from midge.protocol.frame cimport Frame

cdef Py_ssize_t _HEAD, _FIXED, _FIXED_WITH_HEADERS, _BEYOND, _AHEAD
cdef int _MESSAGE


@cython.final
cdef class StoredConsumer:
    cdef public bytes state
    cdef public list operations


cdef class FileStore(SearchableStore):
    cdef readonly unsigned int number
    cdef public bytes account
    cdef public bytes name
    cdef public unsigned long long version
    cdef public long long dedup_window_ns
    cdef public set lost
    cdef Log _log
    cdef public bytes _config
    cdef public dict _consumers
    cdef public list _ids
    cdef public list _ttls
    cdef bytearray _removals
    cdef bint _is_moved
    cdef bytearray _ahead
    cdef unsigned long long _ahead_segment
    cdef Py_ssize_t _ahead_start
    cdef unsigned long long _read_segment
    cdef Py_ssize_t _read_end

    @cython.locals(seq="unsigned long long")
    cpdef unsigned long long append(
        self, bytes subject, bytes headers, bytes payload, long long time_ns,
        unsigned long long seq=*, long long ttl_s=*, bytes msg_id=*
    ) except 0
    @cython.locals(seq="unsigned long long")
    cpdef unsigned long long append_frame(self, Frame frame, long long time_ns) except 0
    @cython.locals(position=Py_ssize_t)
    cpdef bint remove(self, unsigned long long seq, bint erase=*) except -1

    @cython.locals(position=Py_ssize_t, run=Run)
    cpdef bint is_at(
        self, unsigned long long seq, Segment segment, unsigned long long offset
    ) except -1
    cpdef void move(
        self, unsigned long long seq, Segment segment, unsigned long long offset,
        unsigned long long target
    ) except *
    @cython.locals(run=Run, place=Segment)
    cpdef bint needs_tombstone(
        self, unsigned long long seq, unsigned long long group, Segment segment
    ) except -1
    @cython.locals(kind=int, seq="unsigned long long", end=Py_ssize_t, position=Py_ssize_t,
                   time_ns="long long")
    cpdef void replay(
        self, bytearray data, Py_ssize_t at, Segment segment, Py_ssize_t offset
    ) except *
    @cython.locals(seq="unsigned long long", kind="unsigned int", extra=Py_ssize_t,
                   end=Py_ssize_t, incoming=Incoming, headers=Py_ssize_t, size=Py_ssize_t)
    cdef void _replay_message(
        self, bytearray data, Py_ssize_t at, Segment segment, Py_ssize_t offset
    ) except *
    cdef void _replay_bounds(
        self, unsigned long long first_seq, unsigned long long last_seq
    ) except *
    cdef void _forget(self, unsigned long long seq) except *
    @cython.locals(log=Log, subject_length=Py_ssize_t, headers_length=Py_ssize_t, extra=bytes,
                   flags=int, middle=Py_ssize_t, length=Py_ssize_t, at=Py_ssize_t, group=Group,
                   data=bytearray)
    cdef unsigned long long _place(self, Incoming incoming) except? 0xFFFFFFFF
    @cython.locals(run=Run)
    cdef void _note_run(
        self, unsigned long long seq, Segment segment, unsigned long long size
    ) except *
    @cython.locals(fixed=Py_ssize_t)
    cdef unsigned long long _counted(
        self, Py_ssize_t subject, Py_ssize_t headers, Py_ssize_t payload
    ) except? 0
    cdef void _admit(self) except *
    cdef void _moved(self) except *
    @cython.locals(position=Py_ssize_t)
    cdef void _removed(self, unsigned long long seq, bint erase) except *
    cdef void _touch(self) except *
    @cython.locals(segment=Segment)
    cdef void _lost_bytes(self, Py_ssize_t i, Run run, unsigned long long size) except *
    @cython.locals(segment=Segment)
    cdef void _lost_run(self, Run run) except *
    @cython.locals(length=Py_ssize_t, at=Py_ssize_t, data=bytearray)
    cdef void _write(
        self, int kind, unsigned long long seq, long long time_ns, bytes body
    ) except *
    @cython.locals(position=Py_ssize_t, block=Block, run=Run, offset="unsigned long long",
                   size="unsigned long long", found=Py_ssize_t)
    cdef long long _time_of(self, unsigned long long seq) except? -1
    @cython.locals(segment=Segment, group=Group, at=Py_ssize_t)
    cdef StoredMessage _read(
        self, Run run, unsigned long long seq, unsigned long long offset,
        unsigned long long size, Py_ssize_t number
    )
    @cython.locals(position=Py_ssize_t, block=Block, offset=Py_ssize_t, run=Run, at=Py_ssize_t,
                   data=bytearray, extra=Py_ssize_t, length=Py_ssize_t, start=Py_ssize_t)
    cdef object _erasure(self, unsigned long long seq)
    @cython.locals(group=Group, at=Py_ssize_t, end=Py_ssize_t, is_next=bint, whole=int,
                   length=Py_ssize_t)
    cdef Py_ssize_t _bytes_at(
        self, Segment segment, Py_ssize_t offset, Py_ssize_t size
    ) except? -1
    cdef void _read_ahead(self, Segment segment, Py_ssize_t offset, Py_ssize_t size) except *
    @cython.locals(subject_length=Py_ssize_t, start=Py_ssize_t, middle=Py_ssize_t,
                   end=Py_ssize_t)
    cdef StoredMessage _parse(
        self, bytearray data, Py_ssize_t at, unsigned long long seq, Py_ssize_t number
    )
    @cython.locals(body=bytes)
    cdef void _write_config(self) except *
