cimport cython

from midge.jetstream.environment.sink cimport Receiver


cdef dict _read_bodies
cdef long long _INT64_MAX, _UNPRIORITIZED


@cython.final
cdef class RequestBody:
    cdef public long long batch, expires_ns, max_bytes
    cdef public bint no_wait
    cdef public long long heartbeat_ns
    cdef public str group
    cdef public long long min_pending, min_ack_pending
    cdef public str pin_id
    cdef public long long priority
    cdef public bint has_options


@cython.locals(known=RequestBody, made=RequestBody)
cpdef RequestBody read_body(bytes body)


@cython.final
@cython.no_gc
cdef class PullRequest:
    cdef readonly bytes reply
    cdef public long long left, bytes_left, delivered, awaited_after
    cdef public unsigned long long awaited_seq
    cdef readonly bint no_wait
    cdef readonly long long expires_ns, heartbeat_ns
    cdef public long long heartbeat_due_ns
    cdef readonly str group
    cdef public str pin_id
    cdef readonly long long min_pending, min_ack_pending, priority
    cdef public unsigned long long checked_turn
    cdef public Receiver receiver
    cdef public unsigned long long receiver_turn
    cdef public PullRequest next

    cdef void ask(self, bytes reply, RequestBody body, long long now_ns) noexcept


@cython.final
@cython.no_gc
cdef class RequestQueue:
    cdef readonly Py_ssize_t limit
    cdef public bint is_prioritized
    cdef readonly PullRequest first, last
    cdef Py_ssize_t _count

    cpdef bint is_full(self) except -1
    @cython.locals(before=PullRequest, current=PullRequest)
    cpdef void add(self, PullRequest request) except *
    @cython.locals(request=PullRequest)
    cpdef void rotate(self) except *
    @cython.locals(request=PullRequest)
    cpdef PullRequest serve_first(self)
    @cython.locals(current=PullRequest)
    cpdef void restore(self, PullRequest request) except *
    @cython.locals(request=PullRequest)
    cpdef void remove_after(self, PullRequest before) except *
    cpdef void clear(self) except *
    cdef void _insert_after(self, PullRequest before, PullRequest request) except *
