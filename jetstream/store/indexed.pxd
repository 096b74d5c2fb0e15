# C types for indexed.py.

cimport cython

from midge.jetstream.store.entering cimport enter_lines
from midge.jetstream.store.filters cimport Filters
from midge.jetstream.store.interface cimport MessageView, StreamStore
from midge.jetstream.store.known_subjects cimport KnownSubjects
from midge.jetstream.store.message_index cimport MessageIndex
from midge.jetstream.store.published cimport PublishedLines
from midge.jetstream.store.subject_index cimport SubjectIndex
from midge.protocol cimport lines as protocol_lines
from midge.protocol.frame cimport Frame

cdef Py_ssize_t _SUBJECT_MAX, _FILTERS_KEPT, _PATTERNS_KEPT
cdef unsigned long long _FAR, _NEAR


@cython.final
cdef class Run:
    cdef public unsigned long long first_seq
    cdef public object place
    cdef public Py_ssize_t live
    cdef public unsigned long long live_bytes


@cython.final
cdef class Incoming:
    cdef const unsigned char *subject
    cdef public Py_ssize_t subject_start
    cdef public Py_ssize_t subject_end
    cdef const unsigned char *headers
    cdef public Py_ssize_t headers_start
    cdef public Py_ssize_t headers_end
    cdef const unsigned char *payload
    cdef public Py_ssize_t payload_start
    cdef public Py_ssize_t payload_end
    cdef public unsigned long long seq
    cdef public long long time_ns
    cdef public long long ttl_s
    cdef public bytes msg_id


cdef class IndexedStore(StreamStore):
    cdef SubjectIndex _subjects
    cdef MessageIndex _index
    cdef list _runs
    cdef dict _filters
    cdef Incoming _incoming
    cdef MessageView _view
    cdef tuple _latest_filters
    cdef Filters _latest_found
    cdef KnownSubjects _known
    cdef Py_ssize_t _patterns_kept

    @cython.locals(incoming=Incoming)
    cpdef unsigned long long append(
        self, bytes subject, bytes headers, bytes payload, long long time_ns,
        unsigned long long seq=*, long long ttl_s=*, bytes msg_id=*
    ) except 0
    @cython.locals(incoming=Incoming)
    cpdef unsigned long long append_frame(self, Frame frame, long long time_ns) except 0
    cpdef unsigned long long begin_epoch(self) except 0
    cpdef void know_subject(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end,
        unsigned long long epoch
    ) except *
    @cython.locals(known=KnownSubjects)
    cpdef Py_ssize_t resolve_lines(
        self, PublishedLines lines, unsigned long long epoch
    ) except -1
    @cython.locals(known=KnownSubjects, done=Py_ssize_t, placed=Py_ssize_t,
                   seq="unsigned long long", size="unsigned long long", run=Run)
    cpdef Py_ssize_t append_lines(self, PublishedLines lines, long long time_ns) except -1

    @cython.locals(length=Py_ssize_t, offset="unsigned long long", size="unsigned long long")
    cdef bint _store(self, Incoming incoming) except -1
    @cython.locals(subjects=SubjectIndex, seq="unsigned long long", number=Py_ssize_t, run=Run)
    cdef bint _enter(
        self, Incoming incoming, unsigned long long offset, unsigned long long size
    ) except -1
    @cython.locals(position=Py_ssize_t, size="unsigned long long", i=Py_ssize_t, run=Run,
                   following="unsigned long long")
    cdef bint _drop(self, unsigned long long seq) except -1
    @cython.locals(subjects=SubjectIndex, count="unsigned long long",
                   before="unsigned long long", after="unsigned long long")
    cdef void _unlink(self, unsigned long long seq, Py_ssize_t number) except *
    cdef void _keep(self, unsigned long long seq) except *
    @cython.locals(runs=list, run=Run)
    cdef void _clear(self) except *
    @cython.locals(runs=list, last=Py_ssize_t, low=Py_ssize_t, high=Py_ssize_t,
                   middle=Py_ssize_t, run=Run)
    cdef Py_ssize_t _run_index(self, unsigned long long seq) except -1
    @cython.locals(found=Filters)
    cdef Filters _filters_of(self, tuple filters)

    cdef unsigned long long _place(self, Incoming incoming) except? 0xFFFFFFFF
    cdef Py_ssize_t _place_lines(self, PublishedLines lines, Py_ssize_t first) except -1
    cdef unsigned long long _counted(
        self, Py_ssize_t subject, Py_ssize_t headers, Py_ssize_t payload
    ) except? 0
    cdef void _admit(self) except *
    cdef void _moved(self) except *
    cdef void _removed(self, unsigned long long seq, bint erase) except *
    cdef void _lost_bytes(self, Py_ssize_t i, Run run, unsigned long long size) except *
    cdef void _lost_run(self, Run run) except *
