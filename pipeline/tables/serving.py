"""Keep tables up to date: each in a thread of its own, so that one that hangs holds up no other."""

import logging
import threading
from collections.abc import Sequence

from midge.pipeline.tables.landing import Landed, Server, land

EVERY_S = 60.0
_BACK_OFF_S = 1.0
_BACK_OFF_MAX_S = 60.0

_log = logging.getLogger(__name__)


class TableServer:
    """Lands each of several tables again and again until it is stopped.

    A table that fails is tried again after 1 s, 2 s, 4 s and so on, up to 60 s; each new reason is
    logged once.
    """

    def __init__(self, urls: Sequence[str], server: Server, every_s: float = EVERY_S) -> None:
        """Take the tables, the server of their streams and the time between two landings."""
        self._server = server
        self._every_s = every_s
        self._stopped = threading.Event()
        self.landed = {url: Landed() for url in urls}
        """The rows landed in each table since the start, and its position."""
        self.errors: dict[str, str] = {}
        """The reason why a table cannot be landed now."""
        self._threads = {
            url: threading.Thread(target=self._serve, args=(url,), name=url, daemon=True)
            for url in self.landed
        }

    def start(self) -> None:
        """Start to land all tables."""
        for thread in self._threads.values():
            thread.start()

    def stop(self, timeout_s: float) -> list[str]:
        """Land each table a last time; return the tables that did not end in time."""
        self._stopped.set()
        ended = threading.Thread(target=self._join, daemon=True)
        ended.start()
        ended.join(timeout_s)
        return [url for url, thread in self._threads.items() if thread.is_alive()]

    def _join(self) -> None:
        for thread in self._threads.values():
            thread.join()

    def _serve(self, url: str) -> None:
        back_off_s = _BACK_OFF_S
        is_last = False
        while not is_last:
            is_last = self._stopped.is_set()
            if self._land(url):
                pause_s, back_off_s = self._every_s, _BACK_OFF_S
            else:
                pause_s, back_off_s = back_off_s, min(2 * back_off_s, _BACK_OFF_MAX_S)
            if not is_last:
                self._stopped.wait(pause_s)

    def _land(self, url: str) -> bool:
        try:
            done = land(url, self._server)
        except Exception as error:  # noqa: BLE001 - of one table; the others go on
            if self.errors.get(url) != str(error):
                _log.warning("%s: not landed: %s", url, error)
            self.errors[url] = str(error)
            return False
        if self.errors.pop(url, ""):
            _log.warning("%s: landed again", url)
        total = self.landed[url]
        total.rows += done.rows
        total.quarantined += done.quarantined
        total.lost += done.lost
        total.commits += done.commits
        total.position = done.position
        return True
