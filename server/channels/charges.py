"""The costs of commands in addition to the parser's charges, in bytes copied.

See protocol/stream_parser.py for the unit, and for the parser's charges.
"""

from midge.protocol import memory

COMMAND_BYTES = 8 * 1024 if memory.is_compiled() else 64 * 1024
"""An answer, or a message that is not routed in the usual way."""

STEP_BYTES = 64 if memory.is_compiled() else 640
"""A step of the SubList or of a set of permissions."""

DELIVERY_BYTES = 128
"""A delivery, besides the message's bytes."""

DELIVERY_IN_RUN_BYTES = 16
"""A delivery in a run of messages that differ only in their payloads."""

WORK_BYTES = 16 if memory.is_compiled() else 160
"""An item that a store of JetStream looked at: 10 ns, see `Store.work`."""

OK_BYTES = 128 if memory.is_compiled() else 4096
"""A +OK."""

LOG_LINE_BYTES = 32 * 1024
"""A line of the log."""

ESCAPED_BYTES = 256
"""A character of an -ERR text that had to be escaped one by one."""
