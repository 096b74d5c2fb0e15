cimport cython

from midge.jetstream.config cimport consumer as configuration
from midge.jetstream.config cimport consumer_rules, names
from midge.jetstream.config.consumer_config cimport Allowance, ConsumerConfig
from midge.jetstream.consumer.consumer cimport Consumer, FilterSubscription
from midge.jetstream.consumer.consumer_events cimport ConsumerEvents
from midge.jetstream.consumer.consumer_host cimport ConsumerHost
from midge.sublist.bounded_cache cimport BoundedCache
from midge.sublist.sublist cimport SubList

cdef Py_ssize_t _MATCHES_REMEMBERED
cdef unsigned long long _CONSUMER_WORK, _PURGE_WORK


@cython.final
cdef class ConsumerSet(ConsumerHost):
    cdef readonly object config
    cdef object _remove_message, _joined
    cdef dict _by_name, _unfiltered
    cdef object _work_queue
    cdef SubList _filters
    cdef BoundedCache _matches
    cdef unsigned long long _lowest_seq, _trimmed_seq
    cdef dict _trimming
    cdef list _listed
    cdef bint _is_ended

    @cython.locals(other=Consumer)
    cdef void _acked(self, unsigned long long seq) except *
    cdef void _remove(self, unsigned long long seq) except *
    cpdef bint is_empty(self) noexcept
    cpdef tuple matching(self, bytes subject)
    @cython.locals(consumer=Consumer)
    cpdef void stored(self, unsigned long long seq, bytes subject) except *
    @cython.locals(consumer=Consumer)
    cpdef void removed(self, unsigned long long seq, bytes subject) except *
    @cython.locals(consumer=Consumer, first_seq="unsigned long long",
                   before_seq="unsigned long long", lowest="unsigned long long")
    cpdef void trimmed(self) except *
    @cython.locals(name=bytes, existing=Consumer, consumer=Consumer)
    cpdef Consumer create(
        self, ConsumerConfig config, str action, Allowance allowed, bint pedantic=*
    )
    @cython.locals(consumer=Consumer)
    cdef Consumer _made(self, ConsumerConfig config, bytes name)
    @cython.locals(most="long long")
    cdef void _check_new(self, ConsumerConfig config, Allowance allowed) except *
    cpdef void delete(self, Consumer consumer) except *
    cdef void _insert(self, Consumer consumer) except *
    cpdef Consumer get(self, bytes name)
    cdef void _enroll(self, Consumer consumer) except *
    @cython.locals(enrolled=FilterSubscription)
    cdef void _withdraw(self, Consumer consumer) except *
