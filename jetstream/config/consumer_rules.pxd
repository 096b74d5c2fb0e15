cimport cython

from midge.jetstream.config cimport names
from midge.jetstream.config.consumer_config cimport Allowance, ConsumerConfig
from midge.sublist.subjects cimport is_literal, is_valid_subject, matches

cdef long long _LEAST_HEARTBEAT_NS, _LEAST_MAX_EXPIRES_NS
cdef unsigned char _FORM_FEED


cpdef void check(ConsumerConfig config, object stream, Allowance limits) except *

cdef void _check_names(ConsumerConfig config) except *

cdef void _check_replicas(ConsumerConfig config, object stream) except *

cdef void _check_waits(ConsumerConfig config) except *

cdef void _check_ack_flow_control(ConsumerConfig config) except *

@cython.locals(subject=bytes)
cdef void _check_push(ConsumerConfig config, object stream) except *

cdef void _check_pull(ConsumerConfig config, object stream, Allowance limits) except *

@cython.locals(limit="long long", threshold="long long")
cdef void _check_limits(ConsumerConfig config, object stream, Allowance limits) except *

cdef void _check_direct(ConsumerConfig config) except *

cdef void _check_filters(ConsumerConfig config) except *

cdef void _check_start(ConsumerConfig config) except *

cdef void _check_sampling(ConsumerConfig config) except *

@cython.locals(size=Py_ssize_t)
cdef void _check_metadata(ConsumerConfig config) except *

cdef void _check_priority(ConsumerConfig config) except *
