cimport cython

from midge.jetstream.store cimport numbers
from midge.jetstream.store.file cimport records, replayed
from midge.jetstream.store.file.group cimport Segment
from midge.jetstream.store.file.file_store cimport FileStore

cdef Py_ssize_t _HEAD, _GROUP_HEAD, _REPAIRED_MAX, _SECTOR, _PIECE, _TORN_MAX
cdef int _GROUP, _STREAM_DELETED


cdef class Replay:
    cdef readonly unsigned int seed
    cdef readonly list damages, repairs
    cdef readonly unsigned long long group, mark_segment, mark_position
    cdef readonly object stream_of
    cdef object _delete_stream, _is_followed, _pass_hole
    cdef unsigned int _last_number
    cdef FileStore _last_stream

    @cython.locals(at=Py_ssize_t, size=Py_ssize_t, end=Py_ssize_t, following=Py_ssize_t)
    cpdef Py_ssize_t scan(self, Segment segment, bytearray data) except -1
    @cython.locals(size=Py_ssize_t, end=Py_ssize_t, count=Py_ssize_t, chain="unsigned int",
                   position=Py_ssize_t)
    cpdef Py_ssize_t group_end(self, Segment segment, bytearray data, Py_ssize_t at) except -1
    @cython.locals(end=Py_ssize_t)
    cpdef Py_ssize_t next_group(self, Segment segment, bytearray data, Py_ssize_t at) except? -1
    @cython.locals(end=Py_ssize_t)
    cpdef Py_ssize_t next_record(self, Segment segment, bytearray data, Py_ssize_t at) except? -1
    cpdef bint is_misplaced(self, Segment segment, bytearray data) except -1
    @cython.locals(sector_end=Py_ssize_t, end=Py_ssize_t, written=Py_ssize_t)
    cdef bint _is_torn(self, Segment segment, bytearray data, Py_ssize_t at) except -1
    cdef bint _is_group(self, Segment segment, bytearray data, Py_ssize_t at) except -1
    @cython.locals(start=Py_ssize_t, sector_end=Py_ssize_t, last=Py_ssize_t)
    cdef bint _is_cut_short(
        self, Segment segment, bytearray data, Py_ssize_t at, Py_ssize_t end
    ) except -1
    @cython.locals(segment="unsigned long long", position="unsigned long long")
    cdef void _note_mark(self, bytearray data, Py_ssize_t at) except *
    cdef void _apply(self, Segment segment, bytearray data, Py_ssize_t at, Py_ssize_t end) except *
    @cython.locals(number="unsigned int", stream=FileStore)
    cdef void _replay(self, Segment segment, bytearray data, Py_ssize_t at) except *
    @cython.locals(is_expected=bint, damaged_from=Py_ssize_t, whole=int)
    cdef void _salvage(
        self, Segment segment, bytearray data, Py_ssize_t at, Py_ssize_t end
    ) except *
    @cython.locals(whole=int, length=Py_ssize_t)
    cdef int _mend(self, Segment segment, bytearray data, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(position=Py_ssize_t, before=int, value=int, whole=int)
    cdef int _try_bytes(
        self, Segment segment, bytearray data, Py_ssize_t at, Py_ssize_t start,
        Py_ssize_t stop, Py_ssize_t end, int wanted
    ) except -1


@cython.locals(at=Py_ssize_t)
cpdef Py_ssize_t sound_end(
    bytearray data, unsigned int seed, unsigned long long number, unsigned long long position
) except -1
cpdef Py_ssize_t sound_head(
    bytearray data, Py_ssize_t at, unsigned int seed, unsigned long long number,
    unsigned long long position
) except -1
cpdef Py_ssize_t end_of_bytes(bytearray data) except -1
cpdef bint is_zero(bytearray data, Py_ssize_t start) except -1
