"""Hints for the operator, each logged once: a client uses a feature that is switched off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    from midge.protocol.frame import Frame
    from midge.server.config.options import Options

log = get_logger()


class Hints:
    """The hints of one server, each logged once per account."""

    def __init__(self) -> None:
        self._without_jetstream: set[str] = set()

    def jetstream_missed(self, options: Options, account: str, frame: Frame) -> None:
        """Log that `frame`, a request to JetStream from `account`, had no receiver."""
        if options.jetstream.enabled or account in self._without_jetstream:
            return
        self._without_jetstream.add(account)
        log.warning(
            "jetstream_missed",
            account=account,
            subject=frame.subject_bytes(),
            hint="JetStream is off; turn it on by -js, or by enabled in its settings",
        )
