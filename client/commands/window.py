"""Publishing to streams with several unacknowledged messages at a time."""

from typing import Any

from midge.client.client import NatsClient
from midge.client.errors import ServerError, StreamNotFoundError
from midge.client.jetstream import checked_answer, is_no_responders
from midge.protocol.client_side import ReceivedMessage, publish_frame

_WINDOW_MESSAGES = 256
_WINDOW_BYTES = 4 << 20
SILENCE_S = 10.0


class AckWindow:
    """Publishes with a bounded number of outstanding acknowledgements."""

    def __init__(self, client: NatsClient, patience_s: float) -> None:
        """Wait `patience_s` for the next acknowledgement."""
        self.stored = 0
        self.duplicates = 0
        self.stream = ""
        self.last_seq = 0
        self._client = client
        self._patience_s = patience_s
        self._waiting: dict[bytes, tuple[bytes, int]] = {}
        self._bytes = 0

    def publish(self, subject: bytes, payload: bytes, headers: bytes = b"") -> None:
        """Send a message, after waiting for room.

        Raises:
            StreamError: a stream refused this message or an earlier one.
            ServerError: the connection broke, or the server went silent.

        """
        while len(self._waiting) >= _WINDOW_MESSAGES or self._bytes > _WINDOW_BYTES:
            self._receive()
        reply = self._client.new_inbox()
        data = publish_frame(subject, reply, headers, payload)
        self._waiting[reply] = subject, len(data)
        self._bytes += len(data)
        self._client.send(data)

    def finish(self) -> None:
        """Wait until everything is acknowledged; raises as `publish` does."""
        while self._waiting:
            self._receive()

    def _receive(self) -> None:
        messages = self._client.receive(self._patience_s)
        if not messages:
            said = f": {self._client.errors[-1]}" if self._client.errors else ""
            raise ServerError(f"no acknowledgement within {self._patience_s:g} s{said}")
        for message in messages:
            waiting = self._waiting.pop(message.subject, None)
            if waiting is not None:
                self._bytes -= waiting[1]
                self._acknowledge(waiting[0].decode(errors="backslashreplace"), message)

    def _acknowledge(self, subject: str, message: ReceivedMessage) -> None:
        if is_no_responders(message):
            raise StreamNotFoundError(f"{subject}: no stream takes this subject")
        ack: dict[str, Any] = checked_answer(message, subject)
        self.stored += 1
        self.duplicates += bool(ack.get("duplicate"))
        self.stream = str(ack.get("stream", ""))
        self.last_seq = int(ack.get("seq", 0))
