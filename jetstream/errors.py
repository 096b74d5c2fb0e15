"""The errors in JetStream's answers, by nats-server's names.

A row is an `ApiError`: the HTTP-like code, the error code that clients compare, and the text.
`ApiError.fill` replaces any ``{…}`` in the text by values. To refuse a request, raise
``STREAM_NOT_FOUND.error()``. The publish path raises nothing; there, `ApiError.fields` returns the
object under ``"error"`` in an answer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from midge.protocol.errors import MidgeError


class JetStreamError(MidgeError):
    """A refused request; `api` is the answer."""

    __module__ = "midge"

    def __init__(self, api: ApiError) -> None:
        super().__init__(api.description)
        self.api = api


class ApiError(NamedTuple):
    """One row of the table, with its ``{…}`` replaced or not."""

    code: int
    err_code: int
    description: str

    def fill(self, **values: object) -> ApiError:
        """Return this row with its placeholders replaced."""
        text = self.description
        for name, value in values.items():
            text = text.replace("{" + name + "}", str(value))
        return self._replace(description=text)

    def error(self, **values: object) -> JetStreamError:
        """Return the exception to raise, with its placeholders replaced."""
        return JetStreamError(self.fill(**values) if values else self)

    def fields(self) -> dict[str, Any]:
        """Return the object under ``"error"`` in an answer."""
        fields: dict[str, Any] = {"code": self.code}
        if self.err_code:
            fields["err_code"] = self.err_code
        if self.description:
            fields["description"] = self.description
        return fields


ACCOUNT_RESOURCES_EXCEEDED = ApiError(400, 10002, "resource limits exceeded for account")
BAD_REQUEST = ApiError(400, 10003, "bad request")
CLUSTER_REQUIRED = ApiError(503, 10010, "JetStream clustering support required")
CONSUMER_CREATE = ApiError(500, 10012, "{err}")
CONSUMER_NAME_EXIST = ApiError(400, 10013, "consumer name already in use")
CONSUMER_NOT_FOUND = ApiError(404, 10014, "consumer not found")
SNAPSHOT_DELIVER_SUBJECT_INVALID = ApiError(400, 10015, "deliver subject not valid")
CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT = ApiError(
    400, 10017, "consumer name in subject does not match durable name in request"
)
CONSUMER_DURABLE_NAME_NOT_SET = ApiError(
    400, 10018, "consumer expected to be durable but a durable name was not set"
)
CONSUMER_EPHEMERAL_WITH_DURABLE_NAME = ApiError(
    400, 10020, "consumer expected to be ephemeral but a durable name was set in request"
)
STREAM_EXTERNAL_API_OVERLAP = ApiError(
    400, 10021, "stream external api prefix {prefix} must not overlap with {subject}"
)
STREAM_EXTERNAL_DEL_PREFIX_OVERLAPS = ApiError(
    400, 10022, "stream external delivery prefix {prefix} overlaps with stream subject {subject}"
)
INSUFFICIENT_RESOURCES = ApiError(503, 10023, "insufficient resources")
STREAM_INVALID_EXTERNAL_DELIVERY_SUBJ = ApiError(
    400, 10024, "stream external delivery prefix {prefix} must not contain wildcards"
)
INVALID_JSON = ApiError(400, 10025, "invalid JSON: {err}")
MAXIMUM_CONSUMERS_LIMIT = ApiError(400, 10026, "maximum consumers limit reached")
MAXIMUM_STREAMS_LIMIT = ApiError(400, 10027, "maximum number of streams reached")
MEMORY_RESOURCES_EXCEEDED = ApiError(500, 10028, "insufficient memory resources available")
MIRROR_CONSUMER_SETUP_FAILED = ApiError(500, 10029, "{err}")
MIRROR_MAX_MESSAGE_SIZE_TOO_BIG = ApiError(
    400, 10030, "stream mirror must have max message size >= source"
)
MIRROR_WITH_SOURCES = ApiError(400, 10031, "stream mirrors can not also contain other sources")
MIRROR_WITH_SUBJECTS = ApiError(400, 10034, "stream mirrors can not contain subjects")
NO_MESSAGE_FOUND = ApiError(404, 10037, "no message found")
NOT_EMPTY_REQUEST = ApiError(400, 10038, "expected an empty request payload")
NOT_ENABLED_FOR_ACCOUNT = ApiError(503, 10039, "JetStream not enabled for account")
SEQUENCE_NOT_FOUND = ApiError(400, 10043, "sequence {seq} not found")
SOURCE_CONSUMER_SETUP_FAILED = ApiError(500, 10045, "{err}")
SOURCE_MAX_MESSAGE_SIZE_TOO_BIG = ApiError(
    400, 10046, "stream source must have max message size >= target"
)
STORAGE_RESOURCES_EXCEEDED = ApiError(500, 10047, "insufficient storage resources available")
STREAM_CREATE = ApiError(500, 10049, "{err}")
STREAM_INVALID_CONFIG = ApiError(500, 10052, "{err}")
STREAM_MESSAGE_EXCEEDS_MAXIMUM = ApiError(400, 10054, "message size exceeds maximum allowed")
STREAM_MIRROR_NOT_UPDATABLE = ApiError(400, 10055, "stream mirror configuration can not be updated")
STREAM_MISMATCH = ApiError(400, 10056, "stream name in subject does not match request")
STREAM_MSG_DELETE_FAILED = ApiError(500, 10057, "{err}")
STREAM_NAME_EXIST = ApiError(
    400, 10058, "stream name already in use with a different configuration"
)
STREAM_NOT_FOUND = ApiError(404, 10059, "stream not found")
STREAM_NOT_MATCH = ApiError(400, 10060, "expected stream does not match")
STREAM_RESTORE = ApiError(500, 10062, "restore failed: {err}")
STREAM_SUBJECT_OVERLAP = ApiError(400, 10065, "subjects overlap with an existing stream")
STREAM_UPDATE = ApiError(500, 10069, "{err}")
STREAM_WRONG_LAST_MSG_ID = ApiError(400, 10070, "wrong last msg ID: {id}")
STREAM_WRONG_LAST_SEQUENCE = ApiError(400, 10071, "wrong last sequence: {seq}")
STREAM_REPLICAS_NOT_SUPPORTED = ApiError(
    500, 10074, "replicas > 1 not supported in non-clustered mode"
)
STREAM_STORE_FAILED = ApiError(503, 10077, "{err}")
CONSUMER_DELIVER_TO_WILDCARDS = ApiError(400, 10079, "consumer deliver subject has wildcards")
CONSUMER_PUSH_MAX_WAITING = ApiError(400, 10080, "consumer in push mode can not set max waiting")
CONSUMER_DELIVER_CYCLE = ApiError(400, 10081, "consumer deliver subject forms a cycle")
CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED = ApiError(
    400, 10082, "consumer requires ack policy for max ack pending"
)
CONSUMER_SMALL_HEARTBEAT = ApiError(400, 10083, "consumer idle heartbeat needs to be >= 100ms")
CONSUMER_PULL_REQUIRES_ACK = ApiError(
    400, 10084, "consumer in pull mode requires explicit ack policy on workqueue stream"
)
CONSUMER_PULL_WITH_RATE_LIMIT = ApiError(
    400, 10086, "consumer in pull mode can not have rate limit set"
)
CONSUMER_HB_REQUIRES_PUSH = ApiError(
    400, 10088, "consumer idle heartbeat requires a push based consumer"
)
CONSUMER_FC_REQUIRES_PUSH = ApiError(
    400, 10089, "consumer flow control requires a push based consumer"
)
CONSUMER_DIRECT_REQUIRES_PUSH = ApiError(
    400, 10090, "consumer direct requires a push based consumer"
)
CONSUMER_DIRECT_REQUIRES_EPHEMERAL = ApiError(
    400, 10091, "consumer direct requires an ephemeral consumer"
)
CONSUMER_INVALID_POLICY = ApiError(400, 10094, "{err}")
CONSUMER_INVALID_SAMPLING = ApiError(
    400, 10095, "failed to parse consumer sampling configuration: {err}"
)
STREAM_HEADER_EXCEEDS_MAXIMUM = ApiError(400, 10097, "header size exceeds maximum allowed of 64k")
CONSUMER_WQ_REQUIRES_EXPLICIT_ACK = ApiError(400, 10098, "workqueue stream requires explicit ack")
CONSUMER_WQ_MULTIPLE_UNFILTERED = ApiError(
    400, 10099, "multiple non-filtered consumers not allowed on workqueue stream"
)
CONSUMER_WQ_CONSUMER_NOT_UNIQUE = ApiError(
    400, 10100, "filtered consumer not unique on workqueue stream"
)
CONSUMER_WQ_CONSUMER_NOT_DELIVER_ALL = ApiError(
    400, 10101, "consumer must be deliver all on workqueue stream"
)
CONSUMER_NAME_TOO_LONG = ApiError(400, 10102, "consumer name is too long, maximum allowed is {max}")
CONSUMER_DESCRIPTION_TOO_LONG = ApiError(
    400, 10107, "consumer description is too long, maximum allowed is {max}"
)
CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS = ApiError(
    400, 10108, "consumer with flow control also needs heartbeats"
)
STREAM_SEALED = ApiError(400, 10109, "invalid operation on sealed stream")
STREAM_PURGE_FAILED = ApiError(500, 10110, "{err}")
STREAM_ROLLUP_FAILED = ApiError(500, 10111, "{err}")
CONSUMER_INVALID_DELIVER_SUBJECT = ApiError(400, 10112, "invalid push consumer deliver subject")
STREAM_MAX_BYTES_REQUIRED = ApiError(
    400, 10113, "account requires a stream config to have max bytes set"
)
CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL = ApiError(
    400, 10115, "consumer max request expires needs to be >= 1ms"
)
CONSUMER_MAX_DELIVER_BACKOFF = ApiError(
    400, 10116, "max deliver is required to be > length of backoff values"
)
NO_LIMITS = ApiError(400, 10120, "no JetStream default or applicable tiered limit present")
CONSUMER_MAX_PENDING_ACK_EXCESS = ApiError(
    400, 10121, "consumer max ack pending exceeds system limit of {limit}"
)
STREAM_MAX_STREAM_BYTES_EXCEEDED = ApiError(
    400, 10122, "stream max bytes exceeds account limit max stream bytes"
)
CONSUMER_MAX_REQUEST_BATCH_EXCEEDED = ApiError(
    400, 10125, "consumer max request batch exceeds server limit of {limit}"
)
CONSUMER_REPLICAS_EXCEEDS_STREAM = ApiError(
    400, 10126, "consumer config replica count exceeds parent stream"
)
CONSUMER_NAME_CONTAINS_PATH_SEPARATORS = ApiError(
    400, 10127, "Consumer name can not contain path separators"
)
STREAM_NAME_CONTAINS_PATH_SEPARATORS = ApiError(
    400, 10128, "Stream name can not contain path separators"
)
STREAM_NAME_EXIST_RESTORE_FAILED = ApiError(
    400, 10130, "stream name already in use, cannot restore"
)
CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH = ApiError(
    400, 10131, "Consumer create request did not match filtered subject from create subject"
)
CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH = ApiError(
    400, 10132, "Consumer Durable and Name have to be equal if both are provided"
)
REPLICAS_COUNT_CANNOT_BE_NEGATIVE = ApiError(400, 10133, "replicas count cannot be negative")
CONSUMER_REPLICAS_SHOULD_MATCH_STREAM = ApiError(
    400, 10134, "consumer config replicas must match interest retention stream's replicas"
)
CONSUMER_METADATA_LENGTH = ApiError(400, 10135, "consumer metadata exceeds maximum size of {limit}")
CONSUMER_DUPLICATE_FILTER_SUBJECTS = ApiError(
    400, 10136, "consumer cannot have both FilterSubject and FilterSubjects specified"
)
CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED = ApiError(
    400, 10137, "consumer with multiple subject filters cannot use subject based API"
)
CONSUMER_OVERLAPPING_SUBJECT_FILTERS = ApiError(
    400, 10138, "consumer subject filters cannot overlap"
)
CONSUMER_EMPTY_FILTER = ApiError(400, 10139, "consumer filter in FilterSubjects cannot be empty")
SOURCE_DUPLICATE_DETECTED = ApiError(400, 10140, "duplicate source configuration detected")
SOURCE_INVALID_STREAM_NAME = ApiError(400, 10141, "sourced stream name is invalid")
MIRROR_INVALID_STREAM_NAME = ApiError(400, 10142, "mirrored stream name is invalid")
MIRROR_WITH_FIRST_SEQ = ApiError(
    400, 10143, "stream mirrors can not have first sequence configured"
)
SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED = ApiError(
    400, 10144, "source with multiple subject transforms cannot also have a single subject filter"
)
SOURCE_INVALID_SUBJECT_FILTER = ApiError(400, 10145, "source transform source: {err}")
SOURCE_INVALID_TRANSFORM_DESTINATION = ApiError(400, 10146, "source transform: {err}")
SOURCE_OVERLAPPING_SUBJECT_FILTERS = ApiError(400, 10147, "source filters can not overlap")
CONSUMER_ALREADY_EXISTS = ApiError(400, 10148, "consumer already exists")
CONSUMER_DOES_NOT_EXIST = ApiError(400, 10149, "consumer does not exist")
MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED = ApiError(
    400, 10150, "mirror with multiple subject transforms cannot also have a single subject filter"
)
MIRROR_INVALID_SUBJECT_FILTER = ApiError(400, 10151, "mirror transform source: {err}")
MIRROR_OVERLAPPING_SUBJECT_FILTERS = ApiError(400, 10152, "mirror subject filters can not overlap")
CONSUMER_INACTIVE_THRESHOLD_EXCESS = ApiError(
    400, 10153, "consumer inactive threshold exceeds system limit of {limit}"
)
MIRROR_INVALID_TRANSFORM_DESTINATION = ApiError(400, 10154, "mirror transform: {err}")
STREAM_TRANSFORM_INVALID_SOURCE = ApiError(400, 10155, "stream transform source: {err}")
STREAM_TRANSFORM_INVALID_DESTINATION = ApiError(400, 10156, "stream transform: {err}")
PEDANTIC = ApiError(400, 10157, "pedantic mode: {err}")
CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP = ApiError(
    400, 10159, "Setting PriorityPolicy requires at least one PriorityGroup to be set"
)
CONSUMER_INVALID_PRIORITY_GROUP = ApiError(
    400, 10160, "Provided priority group does not exist for this consumer"
)
CONSUMER_EMPTY_GROUP_NAME = ApiError(400, 10161, "Group name cannot be an empty string")
CONSUMER_INVALID_GROUP_NAME = ApiError(
    400,
    10162,
    "Valid priority group name must match A-Z, a-z, 0-9, -_/=)+ and may not exceed 16 characters",
)
STREAM_WRONG_LAST_SEQUENCE_CONSTANT = ApiError(400, 10164, "wrong last sequence")
MESSAGE_TTL_INVALID = ApiError(400, 10165, "invalid per-message TTL")
MESSAGE_TTL_DISABLED = ApiError(400, 10166, "per-message TTL is disabled")
STREAM_TOO_MANY_REQUESTS = ApiError(429, 10167, "too many requests")
MESSAGE_INCR_DISABLED = ApiError(400, 10168, "message counters is disabled")
MESSAGE_INCR_MISSING = ApiError(400, 10169, "message counter increment is missing")
MESSAGE_INCR_PAYLOAD = ApiError(400, 10170, "message counter has payload")
MESSAGE_INCR_INVALID = ApiError(400, 10171, "message counter increment is invalid")
MESSAGE_COUNTER_BROKEN = ApiError(400, 10172, "message counter is broken")
MIRROR_WITH_COUNTERS = ApiError(400, 10173, "stream mirrors can not also calculate counters")
ATOMIC_PUBLISH_DISABLED = ApiError(400, 10174, "atomic publish is disabled")
ATOMIC_PUBLISH_MISSING_SEQ = ApiError(400, 10175, "atomic publish sequence is missing")
ATOMIC_PUBLISH_INCOMPLETE_BATCH = ApiError(400, 10176, "atomic publish batch is incomplete")
ATOMIC_PUBLISH_UNSUPPORTED_HEADER_BATCH = ApiError(
    400, 10177, "atomic publish unsupported header used: {header}"
)
CONSUMER_PUSH_WITH_PRIORITY_GROUP = ApiError(
    400, 10178, "priority groups can not be used with push consumers"
)
ATOMIC_PUBLISH_INVALID_BATCH_ID = ApiError(400, 10179, "atomic publish batch ID is invalid")
CONSUMER_ACK_WAIT_NEGATIVE = ApiError(400, 10183, "consumer ack wait needs to be positive")
CONSUMER_BACK_OFF_NEGATIVE = ApiError(400, 10184, "consumer backoff needs to be positive")
REQUIRED_API_LEVEL = ApiError(412, 10185, "JetStream minimum api level required")
MIRROR_WITH_MSG_SCHEDULES = ApiError(400, 10186, "stream mirrors can not also schedule messages")
SOURCE_WITH_MSG_SCHEDULES = ApiError(400, 10187, "stream source can not also schedule messages")
MESSAGE_SCHEDULES_DISABLED = ApiError(400, 10188, "message schedules is disabled")
MESSAGE_SCHEDULES_PATTERN_INVALID = ApiError(400, 10189, "message schedules pattern is invalid")
MESSAGE_SCHEDULES_TARGET_INVALID = ApiError(400, 10190, "message schedules target is invalid")
MESSAGE_SCHEDULES_TTL_INVALID = ApiError(400, 10191, "message schedules invalid per-message TTL")
MESSAGE_SCHEDULES_ROLLUP_INVALID = ApiError(400, 10192, "message schedules invalid rollup")
STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID = ApiError(
    400, 10193, "missing sequence for expected last sequence per subject"
)
STREAM_OFFLINE_REASON = ApiError(500, 10194, "stream is offline: {err}")
CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE = ApiError(
    400, 10196, "consumer can not have priority groups when policy is none"
)
CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE = ApiError(
    400, 10197, "PinnedTTL cannot be set when PriorityPolicy is none"
)
MIRROR_WITH_ATOMIC_PUBLISH = ApiError(
    400, 10198, "stream mirrors can not also use atomic publishing"
)
ATOMIC_PUBLISH_TOO_LARGE_BATCH = ApiError(400, 10199, "atomic publish batch is too large: {size}")
ATOMIC_PUBLISH_INVALID_BATCH_COMMIT = ApiError(400, 10200, "atomic publish batch commit is invalid")
ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE = ApiError(
    400, 10201, "atomic publish batch contains duplicate message id"
)
MESSAGE_SCHEDULES_SOURCE_INVALID = ApiError(400, 10203, "message schedules source is invalid")
CONSUMER_INVALID_RESET = ApiError(400, 10204, "invalid reset: {err}")
BATCH_PUBLISH_DISABLED = ApiError(400, 10205, "batch publish is disabled")
BATCH_PUBLISH_INVALID_PATTERN = ApiError(400, 10206, "batch publish pattern is invalid")
BATCH_PUBLISH_INVALID_BATCH_ID = ApiError(400, 10207, "batch publish ID is invalid")
BATCH_PUBLISH_UNKNOWN_BATCH_ID = ApiError(400, 10208, "batch publish ID unknown")
MIRROR_WITH_BATCH_PUBLISH = ApiError(400, 10209, "stream mirrors can not also use batch publishing")
ATOMIC_PUBLISH_TOO_MANY_INFLIGHT = ApiError(429, 10210, "atomic publish too many inflight")
BATCH_PUBLISH_TOO_MANY_INFLIGHT = ApiError(429, 10211, "batch publish too many inflight")
MESSAGE_SCHEDULES_SCHEDULER_INVALID = ApiError(400, 10212, "message schedules invalid scheduler")
MIRROR_DURABLE_CONSUMER_CFG_INVALID = ApiError(
    400, 10213, "stream mirror consumer config is invalid"
)
MIRROR_CONSUMER_REQUIRES_ACK_FC = ApiError(
    400, 10214, "stream mirror consumer requires flow control ack policy"
)
SOURCE_DURABLE_CONSUMER_CFG_INVALID = ApiError(
    400, 10215, "stream source consumer config is invalid"
)
SOURCE_DURABLE_CONSUMER_DUPLICATE_DETECTED = ApiError(
    400, 10216, "duplicate stream source consumer detected"
)
SOURCE_CONSUMER_REQUIRES_ACK_FC = ApiError(
    400, 10217, "stream source consumer requires flow control ack policy"
)
CONSUMER_ACK_FC_REQUIRES_PUSH = ApiError(
    400, 10218, "flow control ack policy requires a push based consumer"
)
CONSUMER_ACK_FC_REQUIRES_FC = ApiError(400, 10219, "flow control ack policy requires flow control")
CONSUMER_ACK_FC_REQUIRES_MAX_ACK_PENDING = ApiError(
    400, 10220, "flow control ack policy requires max ack pending"
)
CONSUMER_ACK_FC_REQUIRES_NO_ACK_WAIT = ApiError(
    400, 10221, "flow control ack policy requires unset ack wait"
)
CONSUMER_ACK_FC_REQUIRES_NO_MAX_DELIVER = ApiError(
    400, 10222, "flow control ack policy requires unset max deliver"
)
MESSAGE_SCHEDULES_TIME_ZONE_INVALID = ApiError(400, 10223, "message schedules time zone is invalid")
CONSUMER_STREAM_IDENTITY_MISMATCH = ApiError(
    400, 10225, "consumer's stream identity does not match: {msg}"
)
MESSAGE_SOURCE_HDR_NOT_ALLOWED = ApiError(400, 10227, "message stream source header is not allowed")
