"""Publishing from within the server: the only access to the router without a connection.

Messages from here are trusted: nothing is validated, no interceptor sees them and no limit applies.
They are written with all other output of this turn of the loop.
"""

from midge.protocol.frame import Frame, compose
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.router import Router
from midge.sublist.result import SubListResult


class InternalPublisher:
    """The server's own access to `router`."""

    __slots__ = ("router",)

    def __init__(self, router: Router) -> None:
        self.router = router

    def route_frame(
        self,
        account: Account,
        result: SubListResult,
        frame: Frame,
        publisher: Client | None,
        over: Frame | None = None,
    ) -> int:
        """Route `frame`, uncopied, to the subscriptions in `result`; return how many have taken it.

        Links get `over` in its place, where that is given.

        `publisher` is the originating client, which a link passes on: it is held back if a receiver
        falls far behind, and gets no echo. None is the process itself.
        """
        self.router.flush_soon()  # also without receivers: observers work per turn of the loop
        if over is not None:
            return self.router.route_in_two_forms(account, result, publisher, frame, over)
        return self.router.route(account, result, publisher, frame)

    def publish(
        self,
        account: Account,
        subject: bytes,
        payload: bytes,
        reply: bytes | None = None,
        headers: bytes | None = None,
        publisher: Client | None = None,
        is_mapped: bool = False,
    ) -> int:
        """Publish a message in `account`; return how many have taken it.

        `headers` is a whole header block. With `is_mapped` the account's mappings apply to
        `subject`. Without a receiver or an observer no frame is made.
        """
        if is_mapped and account.mapper is not None:
            mapped = account.mapper.map(subject)
            if mapped is None:
                return 0
            subject = mapped
        result = account.sublist.match(subject)
        if not result and self.router.observer is None:
            return 0
        return self.route_frame(
            account, result, compose(subject, payload, reply, headers), publisher
        )
