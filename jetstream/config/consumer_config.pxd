cimport cython

from midge.jetstream.config cimport names


# It can be in no reference cycle, so the garbage collector need not visit it.
@cython.final
@cython.no_gc
cdef class ConsumerConfig:
    cdef public str durable_name, name, description, deliver_policy
    cdef public unsigned long long opt_start_seq
    cdef public object opt_start_time
    cdef public str ack_policy
    cdef public long long ack_wait_ns, max_deliver
    cdef public list backoff_ns
    cdef public str filter_subject
    cdef public list filter_subjects
    cdef public str replay_policy
    cdef public unsigned long long rate_limit_bps
    cdef public str sample_freq
    cdef public long long max_waiting, max_ack_pending, max_batch, max_expires_ns, max_bytes
    cdef public str deliver_subject, deliver_group
    cdef public long long idle_heartbeat_ns, inactive_threshold_ns, num_replicas
    cdef public bint flow_control, headers_only, mem_storage, direct, sourcing
    cdef public dict metadata
    cdef public object pause_until
    cdef public list priority_groups
    cdef public str priority_policy
    cdef public long long priority_timeout_ns

    cpdef ConsumerConfig copy(self)
    cpdef tuple filters(self)
    cpdef bint is_pull(self) noexcept


@cython.final
cdef class CreateRequest:
    cdef public str stream_name
    cdef public ConsumerConfig config
    cdef public str action
    cdef public bint pedantic


@cython.final
cdef class Allowance:
    cdef public long long server_max_ack_pending, account_max_ack_pending, max_request_batch
    cdef public long long max_consumers
