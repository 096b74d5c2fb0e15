cimport cython

from midge.protocol cimport memory
from midge.protocol.frame cimport Frame, compose, with_subject
from midge.protocol.handler cimport Handler
from midge.protocol.stream_parser cimport StreamParser
from midge.server.channels.channel cimport Channel, ChannelOwner
from midge.server.auth.permissions cimport PermissionRules, Permissions
from midge.server.routing cimport reserved, trace_headers
from midge.server.routing.subscription cimport RoutedSubscription
from midge.sublist cimport subject_table
from midge.sublist.recent cimport RecentMatches
from midge.sublist.result cimport SubListResult
from midge.sublist.sublist cimport SubList
from midge.sublist.subscription cimport Subscription

cdef int VERBOSE, PEDANTIC, RESTRICTED, MAPPED, WATCHED, SCREENED, RESERVED, METERED
cdef Py_ssize_t COMMAND_BYTES, _DELIVERY_BYTES, _DELIVERY_IN_RUN_BYTES, STEP_BYTES, OK_BYTES
cdef Py_ssize_t _RESERVED_BYTES, _SCREENED_BYTES, _NO_RESPONDERS_BYTES, _TRACED_BYTES


cdef class Publishing(Handler):
    cdef readonly ChannelOwner client
    cdef readonly object broker
    cdef public object tracer
    cdef public Permissions permissions
    cdef public bint no_responders
    cdef public int publish_checks
    cdef bytes _subject
    cdef bint _is_matched
    cdef SubListResult _result
    cdef SubList _result_of
    cdef unsigned long long _generation

    cpdef bint on_publish(self, Frame frame) except -1
    @cython.locals(result=SubListResult, cost=Py_ssize_t, deliveries=Py_ssize_t, taken=Py_ssize_t,
                   channel=Channel, client=ChannelOwner)
    cpdef Py_ssize_t on_publish_run(self, Frame frame, Py_ssize_t count) except -1
    cpdef void check(self, int bit, bint on) except *
    @cython.locals(sublist=SubList)
    cdef bint goes_only_to(self, Subscription subscription) except -1
    cpdef object sender(self)
    cpdef void on_budget_spent(self) except *
    cpdef void send_ok(self) except *
    cdef void forget_match(self) except *
    cdef void forget_stale_match(self) except *
    @cython.final
    @cython.locals(is_reserved=bint, data="const unsigned char *", base=Py_ssize_t,
                   start=Py_ssize_t, end=Py_ssize_t)
    cdef void _begin_line(self, Frame frame) noexcept
    @cython.locals(subject=bytes)
    cdef bytes _subject_of(self, Frame frame)
    @cython.final
    @cython.locals(sublist=SubList, recent=RecentMatches, found=SubListResult,
                   result=SubListResult, start=Py_ssize_t, end=Py_ssize_t, steps="long long")
    cdef SubListResult _match(self, Frame frame)
    @cython.final
    @cython.locals(client=ChannelOwner, result=SubListResult, taken=Py_ssize_t,
                   offers="long long", parser=StreamParser)
    cdef bint _route(self, Frame frame) except -1  # `except *` takes a call after each
    @cython.locals(data="const unsigned char *", base=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t)
    cdef void _note_unanswered(self, Frame frame, SubListResult result) except *
    @cython.locals(checks=int, subject=bytes, target=bytes, taken=Py_ssize_t)
    cdef bint _publish_traced(self, Frame frame) except -1
    @cython.locals(checks=int, subject=bytes, target=bytes, may_publish=bint,
                   is_led_astray=bint)
    cdef void _publish_guarded(self, Frame frame) except *
    @cython.locals(permissions=Permissions, rules=PermissionRules, steps="long long",
                   may_publish=bint)
    cdef bint _may_publish(self, bytes subject) except -1
    @cython.locals(steps="long long")
    cdef bytes _mapped(self, bytes subject)
    @cython.locals(sublist=SubList, steps="long long", looked_at=Py_ssize_t, listening=tuple,
                   subscription=RoutedSubscription)
    cdef void _send_no_responders(self, Frame frame, bytes subject) except *
