cimport cython

from midge.protocol cimport memory
from midge.protocol.frame cimport Frame
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.routing.message_observer cimport MessageObserver
from midge.server.recorder.message_rows cimport MessageRows
from midge.server.routing.router cimport Router
from midge.sublist.bounded_cache cimport BoundedCache

cdef int _SKIPPED, _WHOLE
cdef long long _HOUR_US
cdef int _NOT_COUNTED, _WORKER


cdef class MessageTap(MessageObserver):
    cdef readonly MessageRows rows
    cdef readonly long long dropped
    cdef Router _router
    cdef object _exchange, _choose
    cdef BoundedCache _choices
    cdef dict _codes
    cdef object _wall
    cdef unsigned long long _batch
    cdef long long _time_us
    cdef bint _refused
    cdef Account _account
    cdef bytes _subject
    cdef Py_ssize_t _subject_length
    cdef int _choice, _account_code, _subject_code
    cdef Frame _frame
    cdef Py_ssize_t _plain, _queued
    cdef bint _repeatable

    cpdef void message_routed(
        self, Account account, Client publisher, Frame frame, Py_ssize_t plain, Py_ssize_t queued
    ) except *
    cpdef bint sees_runs(self) noexcept
    @cython.locals(first=Py_ssize_t, seen=Py_ssize_t, again=Py_ssize_t)
    cpdef void run_routed(
        self, Account account, Client publisher, Frame frame, Py_ssize_t count, Py_ssize_t plain
    ) except *
    cdef Py_ssize_t _count_again(
        self, Frame frame, Py_ssize_t count, Py_ssize_t plain, Py_ssize_t queued
    ) noexcept
    @cython.locals(start=Py_ssize_t, length=Py_ssize_t)
    cdef void _note(
        self, Account account, Client publisher, Frame frame, Py_ssize_t plain, Py_ssize_t queued
    ) except *
    @cython.locals(hour="long long")
    cpdef void begin_batch(self) except *
    @cython.locals(rows=MessageRows)
    cpdef bint swap(self) except *
    @cython.locals(known=int)
    cdef void _change_subject(self, Account account, Frame frame) except *
    cdef int _chosen(self, bytes subject) except -1
