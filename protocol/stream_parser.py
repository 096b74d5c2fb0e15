"""What a parser of a byte stream has in common with others, whatever the bytes mean."""

from midge.protocol.handler import Handler


class StreamParser:
    """Drives `handler` with what it finds in the bytes that `feed` is given.

    Setting `halted` makes `feed` return after the command at hand. `budget` is what may be done
    until `handler.on_budget_spent` is called, in bytes copied or what takes as long. `max_payload`
    bounds header and payload of a message together, in bytes, -1 for no bound. While
    `connect_required` is set only a CONNECT may come.
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

        What is not used is given again, with more behind it. Returns at once while `halted`.

        Raises:
            ProtocolError: the peer broke the protocol; nothing more may be fed.
        """
        raise NotImplementedError

    def charge(self, cost_bytes: int) -> None:
        """Take so much off the budget; the handler halts this parser when too little is left."""
        self.budget -= cost_bytes
        if self.budget < 0:
            self.handler.on_budget_spent()

    def forget_buffer(self) -> None:
        """Let go of the buffer that was fed last."""
