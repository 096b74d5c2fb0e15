"""The interface of all parsers of byte streams."""

from midge.protocol.handler import Handler


class StreamParser:
    """Calls `handler` for each command in the bytes passed to `feed`.

    Setting `halted` makes `feed` return after the current command. `budget` is the work left until
    `handler.on_budget_spent` is called, in bytes copied, or other work that takes as long.
    `max_payload` bounds header and payload of a message together, in bytes, -1 for no bound. While
    `connect_required` is set, any command but CONNECT is an error.
    """

    __slots__ = ("budget", "connect_required", "halted", "handler", "max_payload")

    def __init__(self, handler: Handler, max_payload: int = -1) -> None:
        self.handler = handler
        self.halted = False
        self.budget = 0
        self.max_payload = max_payload
        self.connect_required = False

    def feed(self, buffer: bytearray, start: int, end: int) -> int:
        """Handle the commands in ``buffer[start:end]``; return the index of the first unused byte.

        The caller passes unused bytes again, followed by more. Returns at once while `halted`.

        Raises:
            ProtocolError: the peer broke the protocol; `feed` must not be called again.
        """
        raise NotImplementedError

    def charge(self, cost_bytes: int) -> None:
        """Reduce the budget; below 0, the handler adds to it or halts this parser."""
        self.budget -= cost_bytes
        if self.budget < 0:
            self.handler.on_budget_spent()

    def forget_buffer(self) -> None:
        """Drop the reference to the buffer that was fed last."""
