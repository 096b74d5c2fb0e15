cimport cython

from midge.jetstream.api.call cimport ApiCall, Family
from midge.jetstream.config cimport consumer as configuration
from midge.jetstream.config cimport names
from midge.jetstream.config.consumer_config cimport ConsumerConfig, CreateRequest
from midge.jetstream.consumer.consumer cimport Consumer
from midge.jetstream.consumer.consumer_set cimport ConsumerSet
from midge.jetstream.consumer.info cimport written_report
from midge.jetstream.json.flat cimport FlatReader
from midge.jetstream.stream.stream cimport Stream

cdef FlatReader _FLAT_REQUEST


@cython.locals(request=CreateRequest, name=str, config=ConsumerConfig, stream=Stream,
               identity=bytes)
cpdef void create(ApiCall call) except *

@cython.locals(config=ConsumerConfig, existing=Consumer, consumer=Consumer)
cdef void _make(
    ApiCall call, CreateRequest request, Stream stream, str name, bytes identity
) except *

@cython.locals(report=bytes)
cdef void _report(ApiCall call, Consumer consumer, object after=*, bytes headers=*) except *

@cython.locals(config=ConsumerConfig, tokens=list, rest=list, at=Py_ssize_t, name=str,
               is_durable=bint)
cdef str _check_subject(ApiCall call, CreateRequest request)

cdef bytes _check_identity(ApiCall call, Stream stream, ConsumerConfig config)

cdef void _check_filter(str subject, ConsumerConfig config) except *

@cython.locals(stream=Stream)
cpdef void delete(ApiCall call) except *

cdef Stream _stream(ApiCall call)

cdef Consumer _consumer(ApiCall call)

@cython.locals(consumer=Consumer)
cdef Consumer _consumer_of(ApiCall call, Stream stream)

@cython.locals(second=str)
cpdef Family find(list tokens)
