cimport cython

from midge.jetstream.config.consumer_config cimport Allowance, ConsumerConfig, CreateRequest
from midge.jetstream.json.object_writer cimport ObjectWriter

cdef list _NOTHING
cdef dict _METADATA, _METADATA_SHOWN
cdef bytes _METADATA_WRITTEN


cpdef void set_defaults(
    ConsumerConfig config, object stream, Allowance limits, bint pedantic
) except *

cdef void _normalise(ConsumerConfig config, bint pedantic) except *

@cython.locals(max_ack_pending="long long", threshold="long long")
cdef void _take_from_stream(ConsumerConfig config, object stream_limits, bint pedantic) except *

@cython.locals(limit="long long")
cdef void _take_from_limits(ConsumerConfig config, Allowance limits, bint pedantic) except *

cdef void _refuse(bint is_refused, str text) except *

@cython.locals(level=int, metadata=dict)
cpdef void set_required_level(ConsumerConfig config) except *

cdef dict _with_metadata(dict shown, dict metadata)

cdef dict _with_versions(dict metadata)

cpdef void share_parts(ConsumerConfig config) except *

cpdef bint write_versioned(ConsumerConfig config, ObjectWriter out) except -1
