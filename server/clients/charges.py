"""The cost of commands to a turn besides what the parser charges, in bytes copied.

See protocol/costs.py for the unit, and for what the parser charges.
"""

from midge.protocol import memory

COMMAND_BYTES = 8 * 1024 if memory.is_compiled() else 64 * 1024
"""An answer, or a message on a way of its own."""

STEP_BYTES = 64 if memory.is_compiled() else 640
"""A step of the SubList or of a set of permissions."""

DELIVERY_BYTES = 128
"""A delivery, besides the message's bytes."""

DELIVERY_IN_RUN_BYTES = 16
"""The same in a run of messages that differ in their payloads only."""

WORK_BYTES = 16 if memory.is_compiled() else 160
"""An item that a store of JetStream looked at: 10 ns, see `StreamStore.work`."""

OK_BYTES = 128 if memory.is_compiled() else 4096
"""A +OK."""

LOG_LINE_BYTES = 32 * 1024
"""A line of the log."""

ESCAPED_BYTES = 256
"""A character of an -ERR that had to be looked at one by one."""
