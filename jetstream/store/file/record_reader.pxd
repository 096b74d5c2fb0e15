cimport cython

from midge.jetstream.store cimport numbers
from midge.jetstream.store.file cimport records
from midge.jetstream.store.file.group cimport Group, Segment
from midge.jetstream.store.file.log cimport Log
from midge.jetstream.store.indexes cimport Indexes, Medium, Run
from midge.jetstream.store.interface cimport MessageView
from midge.jetstream.store.block cimport Block

cdef Py_ssize_t _HEAD, _BEYOND, _AHEAD, _FETCHED
cdef unsigned long long _LONG


cdef class RecordReader(Medium):
    cdef readonly unsigned int number
    cdef readonly set lost
    cdef public bint is_erasing, is_trying, is_away
    cdef Log _log
    cdef bytearray _ahead
    cdef unsigned long long _ahead_segment
    cdef Py_ssize_t _ahead_start, _ahead_end
    cdef unsigned long long _read_segment
    cdef Py_ssize_t _read_end

    @cython.locals(row=Py_ssize_t, run=Run, segment=Segment, offset=Py_ssize_t,
                   size=Py_ssize_t)
    cdef bint fetch_departing(self, unsigned long long seq, object take) except -1
    @cython.locals(row=Py_ssize_t, block=Block, run=Run, segment=Segment, offset=Py_ssize_t,
                   size=Py_ssize_t)
    cdef bint is_cached(self, unsigned long long seq, object waiter) except -1
    @cython.locals(row=Py_ssize_t, block=Block, run=Run, segment=Segment, offset=Py_ssize_t,
                   size="unsigned long long", was_reading=bint, is_there=bint)
    cdef bint is_time_cached(self, unsigned long long seq, object waiter) except -1
    @cython.locals(row=Py_ssize_t, block=Block, run=Run, offset="unsigned long long",
                   size="unsigned long long", was_reading=bint, found=Py_ssize_t,
                   time="long long")
    cdef long long time_of(self, unsigned long long seq) except? -1
    @cython.locals(seq="unsigned long long", row=Py_ssize_t, offset=Py_ssize_t, run=Run,
                   segment=Segment, time="long long")
    cdef bint is_first_time_cached(self, object waiter) except -1
    @cython.locals(seq="unsigned long long", row=Py_ssize_t, run=Run, time="long long")
    cdef long long first_time_ns(self) except? -1
    @cython.locals(group=Group)
    cdef long long _time_in_head(self, Segment segment, Py_ssize_t offset) except? -1
    cdef long long _checked_time(
        self, Segment segment, Py_ssize_t offset, bytearray head
    ) except? -1
    cpdef void forget_ahead(self) except *
    cpdef void drop_ahead(self) except *
    cdef void _drop_one(self, Py_ssize_t size) except *
    @cython.locals(segment=Segment, group=Group, at=Py_ssize_t, whole=int)
    cdef bint view_at(
        self, MessageView view, Run run, unsigned long long offset, unsigned long long size,
        Py_ssize_t number
    ) except -1
    cdef bint _is_ahead(self, Segment segment, Py_ssize_t offset, Py_ssize_t size) except -1
    @cython.locals(group=Group, at=Py_ssize_t, end=Py_ssize_t, is_next=bint, whole=int,
                   length=Py_ssize_t)
    cdef Py_ssize_t _bytes_at(self, Segment segment, Py_ssize_t offset, Py_ssize_t size) except? -1
    cdef bint _is_next(self, Segment segment, Py_ssize_t offset) noexcept
    @cython.locals(is_next=bint)
    cdef bint _try_ahead(
        self, Segment segment, Py_ssize_t offset, Py_ssize_t size, object waiter
    ) except -1
    cdef void _read_ahead(self, Segment segment, Py_ssize_t offset, Py_ssize_t size) except *
    cdef void _have_ahead(self, Segment segment, Py_ssize_t offset, object data) except *
    cdef void _show_record(self, MessageView view, bytearray data, Py_ssize_t at) noexcept
