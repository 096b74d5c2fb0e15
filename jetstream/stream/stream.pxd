cimport cython

from midge.jetstream.headers cimport HeaderScan
from midge.jetstream.stream.direct_get cimport DirectGet
from midge.jetstream.stream.stream_host cimport StreamHost
from midge.jetstream.stream.incoming cimport Incoming
from midge.protocol cimport digits, memory
from midge.protocol.frame cimport Frame

cdef int _BRACE, _HEADERS_MAX, _LAST_OF_FAST_BATCH, _NOTHING, _OTHERS
cdef long long _SECOND_NS
cdef bytes _NO_BYTES, _OVERLOADED


cdef class Stream(StreamHost):
    cdef HeaderScan _scan
    cdef readonly object expiry, schedules, atomic_batches, fast_batches
    cdef public object republisher
    cdef readonly DirectGet direct_get
    cdef public object origins
    cdef bint _is_interest, _is_plain

    @cython.locals(seq="unsigned long long", reply=bytes, ack=bytes, found=int)
    cpdef void publish_frame(self, Frame frame, long long now_ns=*) except *
    cpdef bint takes_lines(self) except -1
    @cython.locals(start=Py_ssize_t)
    cdef int _look_at(self, Frame frame) except -1
    cdef unsigned long long _append(self, Frame frame) except? 0
    @cython.locals(msg_id=bytes, known="unsigned long long", seq="unsigned long long", reply=bytes)
    cdef unsigned long long _append_once(self, Frame frame) except? 0
    cpdef void publish(self, bytes subject, bytes reply, bytes headers_of, bytes payload) except *
    @cython.locals(message=Incoming, values=dict)
    cdef void _publish(self, bytes subject, bytes reply, bytes headers_of, bytes payload) except *
    @cython.locals(seq="unsigned long long")
    cpdef bint take(self, Incoming message) except -1
    cdef bint _check(self, Incoming message) except -1
    cpdef unsigned long long store_checked(self, Incoming message) except? 0
    cpdef unsigned long long store_message(self, Incoming message) except? 0
    @cython.locals(subject=bytes, seq="unsigned long long", before="unsigned long long")
    cdef unsigned long long _store(self, Incoming message) except? 0
    cdef void _remember(self, Incoming message, unsigned long long seq) except *
    cpdef _read_ttl(self, Incoming message)
    @cython.locals(scheduler=bytes)
    cdef void _roll_up(self, Incoming message, Py_ssize_t keep) except *
    cdef bint _stored(self, unsigned long long seq, long long size) except -1
    cdef void _overload(self, bytes reply) except *
    @cython.locals(body=bytes)
    cpdef void acknowledge(self, Incoming message, unsigned long long seq, bytes tail) except *
    cdef bytes _ack_tail(self, Incoming message)
    cpdef void refuse(self, Incoming message, object error) except *
    cdef void _refuse(self, bytes reply, object error) except *
