cimport cython

from midge.jetstream.consumer.ack_tracker cimport AckTracker
from midge.jetstream.consumer.consumer cimport Consumer
from midge.jetstream.consumer.consumer_host cimport ConsumerHost
from midge.jetstream.consumer.receivers cimport Receivers
from midge.jetstream.consumer.requests cimport PullRequest, RequestBody, RequestQueue, read_body
from midge.jetstream.environment.sink cimport Receiver
from midge.jetstream.store.interface cimport MessageView
from midge.jetstream.store.store cimport Store

cdef long long _SECOND_NS, _MILLISECOND_NS, _SWEEP_INTERVAL_NS
cdef int _NO_PRIORITY, _OVERFLOW, _PINNED, _PRIORITIZED


cdef class PullRequests(Receivers):
    cdef Consumer _consumer
    cdef readonly RequestQueue queue
    cdef readonly object pin
    cdef PullRequest _served
    cdef object _timer
    cdef long long _timer_ns, _swept_ns
    cdef object _disk_timer
    cdef bint _is_disk_late
    cdef readonly int priority_policy

    @cython.locals(asked=RequestBody, request=PullRequest, now_ns="long long", refusal=bytes,
                   consumer=Consumer)
    cpdef void request(self, bytes reply, bytes body) except *
    cdef bytes _refusal(self, RequestBody asked)
    cdef bytes _refusal_of_priority(self, RequestBody asked)
    @cython.locals(pending="long long", acks=AckTracker)
    cdef bytes _refusal_now(self, RequestBody asked, long long now_ns)
    @cython.locals(acks=AckTracker)
    cdef bint _is_stalled(self) except -1
    @cython.locals(requests=RequestQueue, request=PullRequest, passed=Py_ssize_t, needs_pin=bint,
                   now_ns="long long")
    cdef bytes next_subject(self, Py_ssize_t size)
    @cython.locals(request=PullRequest, host=ConsumerHost, receiver=Receiver)
    cdef Receiver next_receiver(self, MessageView view)
    @cython.locals(request=PullRequest, now_ns="long long")
    cdef void delivered(self, Py_ssize_t size, bint is_taken) except *
    @cython.locals(request=PullRequest, receiving=list)
    cdef void end_turn(self, bint is_drained, bint is_at_end) except *
    @cython.locals(acks=AckTracker)
    cdef bint _is_passed_over(self, PullRequest request) except -1
    cdef bint _fits(self, PullRequest request, Py_ssize_t size) except -1
    @cython.locals(host=ConsumerHost)
    cdef bint _has_interest(self, PullRequest request) except -1
    @cython.locals(request=PullRequest, before=PullRequest, now_ns="long long",
                   asked="long long", due_ns="long long")
    cpdef long long _sweep(self, bint is_at_end) except *
    cdef bint _is_over(self, PullRequest request, long long now_ns, bint is_at_end) except -1
    @cython.locals(store=Store)
    cdef bint _waits_for_disk(self, PullRequest request) except -1
    cdef long long _next_due(self, PullRequest request, long long now_ns, long long due_ns) except *
