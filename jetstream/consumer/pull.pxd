# C types for pull.py.

cimport cython

from midge.jetstream.consumer.consumer cimport Consumer
from midge.jetstream.consumer.requests cimport (
    PullRequest,
    RequestBody,
    RequestQueue,
    read_body,
)
from midge.jetstream.environment.sink cimport Receiver
from midge.jetstream.headers cimport add_lines
from midge.jetstream.store.store cimport Store

cdef long long _SECOND_NS, _MILLISECOND_NS, _SWEEP_INTERVAL_NS
cdef int _NO_PRIORITY, _OVERFLOW, _PINNED, _PRIORITIZED


cdef class PullConsumer(Consumer):
    cdef readonly RequestQueue requests
    cdef readonly object pin
    cdef public long long last_active_ns
    cdef PullRequest _served
    cdef list _received
    cdef readonly int priority_policy
    cdef readonly bint asks_for_one
    cdef object _request_timer
    cdef long long _request_timer_ns
    cdef long long _swept_ns
    cdef object _disk_timer
    cdef bint _is_disk_late
    cdef object _inactive_timer
    cdef long long _threshold_ns

    @cython.locals(asked=RequestBody, request=PullRequest, now_ns="long long", refusal=bytes)
    cpdef void request(self, bytes reply, bytes body) except *
    cdef bytes _refusal(self, RequestBody asked)
    cdef bytes _refusal_of_priority(self, RequestBody asked)
    @cython.locals(pending="long long")
    cdef bytes _refusal_now(self, RequestBody asked, long long now_ns)
    cdef bint _is_stalled(self) except -1
    @cython.locals(requests=RequestQueue, request=PullRequest, passed=Py_ssize_t, needs_pin=bint)
    cdef bytes _target(self, Py_ssize_t size)
    @cython.locals(request=PullRequest)
    cdef Receiver _receiver(self)
    @cython.locals(request=PullRequest)
    cdef void _turn_over(self) except *
    cdef bint _is_passed_over(self, PullRequest request) except -1
    cdef bint _fits(self, PullRequest request, Py_ssize_t size) except -1
    cdef bint _has_interest(self, PullRequest request) except -1
    @cython.locals(request=PullRequest, before=PullRequest, now_ns="long long",
                   asked="long long", due_ns="long long")
    cpdef long long _sweep(self, bint is_at_end) except *
    cdef bint _is_over(self, PullRequest request, long long now_ns, bint is_at_end) except -1
    @cython.locals(store=Store)
    cdef bint _waits_for_disk(self, PullRequest request) except -1
    cdef long long _next_due(
        self, PullRequest request, long long now_ns, long long due_ns
    ) except *
