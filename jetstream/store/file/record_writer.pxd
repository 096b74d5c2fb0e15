cimport cython

from midge.jetstream.store cimport numbers
from midge.jetstream.store.file cimport records
from midge.jetstream.store.file.group cimport Group, Segment
from midge.jetstream.store.file.log cimport Log
from midge.jetstream.store.file.record_reader cimport RecordReader
from midge.jetstream.store.indexes cimport AppendedMessage, Indexes, Run
from midge.jetstream.store.block cimport Block
from midge.jetstream.store.published cimport PublishedLines

cdef Py_ssize_t _RESERVE, _HEAD, _FIXED, _BEYOND, _ID, _TTL, _NOTES_MIN
cdef int _MESSAGE


cdef class RecordWriter(RecordReader):
    cdef bytearray removals
    cdef bint is_moved
    cdef readonly unsigned long long configured_in
    cdef unsigned long long bounded_in, ends_in, lost_from
    cdef bytearray ids
    cdef Py_ssize_t _ids_max
    cdef bytearray ttls
    cdef Py_ssize_t _ttls_max
    cdef public long long dedup_window_ns

    cpdef unsigned long long close_group(self) except? 0
    cpdef void made_durable(self, unsigned long long last_seq) except *
    @cython.locals(log=Log, subject_length=Py_ssize_t, headers_length=Py_ssize_t, extra=bytes,
                   flags=int, middle=Py_ssize_t, length=Py_ssize_t, at=Py_ssize_t, group=Group,
                   data=bytearray)
    cdef unsigned long long place(self, AppendedMessage incoming) except? 0xFFFFFFFF
    @cython.locals(log=Log, group=Group, end=Py_ssize_t, placed=Py_ssize_t,
                   size="unsigned long long")
    cdef Py_ssize_t place_lines(self, PublishedLines lines, Py_ssize_t first) except -1
    @cython.locals(run=Run)
    cdef void note_run(
        self, unsigned long long seq, Segment segment, unsigned long long size
    ) except *
    cdef void admit(self) except *
    cdef void moved(self) except *
    @cython.locals(position=Py_ssize_t)
    cdef void removed(self, unsigned long long seq) except *
    cdef void purged(self, bytes subject, unsigned long long upto) except *
    cdef void _touch(self) except *
    @cython.locals(segment=Segment)
    cdef void run_shrank(self, Py_ssize_t i, Run run, unsigned long long size) except *
    @cython.locals(length=Py_ssize_t, at=Py_ssize_t, group=Group)
    cdef void write(self, int kind, unsigned long long seq, long long time_ns, bytes body) except *
    cdef void note_kind(self, int kind, Segment segment) except *
    @cython.locals(at=Py_ssize_t)
    cdef void note_id(self, bytes msg_id, unsigned long long seq, long long time_ns) except *
    @cython.locals(at=Py_ssize_t)
    cdef void forget_ids(self, unsigned long long before_ns) except *
    @cython.locals(at=Py_ssize_t, kept=bytearray)
    cdef void note_ttl(self, unsigned long long seq, bytes seconds) except *
    @cython.locals(at=Py_ssize_t, end=Py_ssize_t)
    cpdef list noted_ids(self)
    cpdef list noted_ttls(self)
    @cython.locals(row=Py_ssize_t, block=Block, offset=Py_ssize_t, run=Run, at=Py_ssize_t,
                   data=bytearray, extra=Py_ssize_t, length=Py_ssize_t, start=Py_ssize_t)
    cdef object erasure(self, unsigned long long seq)
