cimport cython

from midge.jetstream.store cimport numbers
from midge.jetstream.store.file cimport records
from midge.jetstream.store.file.group cimport Segment
from midge.jetstream.store.file.log cimport Log
from midge.jetstream.store.file.file_store cimport FileStore

cdef Py_ssize_t _HEAD, _GROUP_HEAD, _MOVE
cdef int _GROUP, _MESSAGE, _WHOLE
cdef unsigned int _NONE


@cython.final
cdef class KeptRecords:
    cdef readonly set names
    cdef readonly list removals, ids
    cdef readonly dict purges


cdef class Compaction:
    cdef readonly Log log
    cdef readonly Segment segment
    cdef dict _streams
    cdef object _done
    cdef dict _carried
    cdef set _stream_deletions
    cdef bytearray _moves
    cdef Py_ssize_t _moved_count
    cdef bint _has_ids
    cdef Py_ssize_t _erasures, _position
    cdef unsigned long long _read_group
    cdef bytearray _data
    cdef Py_ssize_t _used
    cdef unsigned long long _group
    cdef object _file
    cdef unsigned int _number
    cdef FileStore _stream

    @cython.locals(number="unsigned int", stream=FileStore)
    cdef void _pass_over(self) except *
    @cython.locals(size=Py_ssize_t)
    cdef object _read_slice(self)
    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, seed="unsigned int", segment=Segment,
                   has_head=bint, length=Py_ssize_t)
    cdef bint _sort(self, bytearray old) except -1
    @cython.locals(kind=int)
    cdef bint _sort_record(self, bytearray old, Py_ssize_t at) except -1
    @cython.locals(number="unsigned long long", position=Py_ssize_t)
    cdef bint _is_whole(self, bytearray old, Py_ssize_t at) except -1
    cdef void _copy(self, bytearray old, Py_ssize_t at, Py_ssize_t size) except *
    @cython.locals(at=Py_ssize_t)
    cdef void _note_move(
        self, unsigned int number, unsigned long long seq, Py_ssize_t start
    ) except *
    @cython.locals(at=Py_ssize_t, stream=FileStore)
    cdef void _move(self) except *
    @cython.locals(number="unsigned int", stream=FileStore, seq="unsigned long long",
                   length=Py_ssize_t)
    cdef bint _sort_message(self, bytearray old, Py_ssize_t at) except -1
    @cython.locals(extra=Py_ssize_t, start=Py_ssize_t)
    cdef void _keep_id(
        self, FileStore stream, bytearray old, Py_ssize_t at, unsigned long long seq,
        Py_ssize_t length
    ) except *
    cdef void _note_id(
        self, FileStore stream, bytes msg_id, unsigned long long seq, long long time_ns
    ) except *
    @cython.locals(number="unsigned int", stream=FileStore, seq="unsigned long long",
                   end=Py_ssize_t, carried=KeptRecords, position=Py_ssize_t, length=Py_ssize_t)
    cdef void _sort_other(
        self, bytearray old, Py_ssize_t at, int kind, unsigned long long group
    ) except *
    cdef void _note_removal(
        self, FileStore stream, unsigned long long seq, unsigned long long group
    ) except *
    @cython.locals(carried=KeptRecords)
    cdef KeptRecords _of(self, unsigned int number)
