cimport cython

from midge.server.auth.pattern_set cimport PatternSet
from midge.sublist.bounded_cache cimport BoundedCache

cdef long long _REMEMBER_EVERY


cdef class PermissionRules:
    cdef readonly object table
    cdef readonly PatternSet publish_allow, publish_deny, subscribe_allow, subscribe_deny
    cdef readonly bint limits_publish_allow, limits_subscribe_allow
    cdef readonly bint has_publish_rules, has_deliver_deny, allows_responses
    cdef readonly long responses_max
    cdef readonly double responses_expire_s
    cdef readonly BoundedCache publish_cache, deliver_cache, deliver_queue_cache

    cdef long long _checks

    cdef bint remembers(self)
    cpdef long long steps(self)
    cpdef bint check_publish(self, bytes subject) except -1
    @cython.locals(allowed=bint, queues=list)
    cpdef bint check_subscribe(self, bytes subject, bytes queue) except -1
    @cython.locals(queues=list)
    cpdef bint check_deliver(self, bytes subject, bytes queue) except -1


cdef class Permissions:
    cdef readonly PermissionRules rules
    cdef readonly bint has_publish_rules, has_deliver_deny, allows_responses
    cdef BoundedCache _publish_cache, _deliver_cache, _deliver_queue_cache
    cdef dict _responses
    cdef Py_ssize_t _response_bytes

    cpdef bint may_publish(self, bytes subject) except -1
    cpdef bint may_subscribe(self, bytes subject, bytes queue) except -1
    cpdef bint may_deliver(self, bytes subject, bytes queue) except -1
    cpdef bint grant_response(self, bytes reply, double now_s) except -1
    cpdef bint use_response(self, bytes subject, double now_s) except -1
    cdef bint _may_deliver_to_queue(self, bytes subject, bytes queue) except -1
    cdef bint _drop_stale_responses(self, double now_s) except -1
    cdef void _forget_response(self, bytes reply) except *
    cdef bint _is_expired(self, _Grant grant, double now_s) except -1


cdef class _Grant:
    cdef public double granted_s
    cdef public long used


@cython.locals(patterns=PatternSet)
cdef bint _queue_matches(bytes queue, list names) except -1
