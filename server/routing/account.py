"""An account: an isolated subject space with its own SubList and its own counts."""

from typing import TYPE_CHECKING, Any

from midge.sublist.sublist import SubList

if TYPE_CHECKING:
    from midge.server.routing.client import Client

GLOBAL_ACCOUNT = "$G"
SYSTEM_ACCOUNT = "$SYS"


class Account:
    """One subject space. Connections of different accounts never see each other's messages."""

    __slots__ = ("__weakref__", "clients", "mapper", "name", "sublist", "system")

    def __init__(self, name: str, sublist: SubList | None = None) -> None:
        self.name = name
        self.sublist = SubList() if sublist is None else sublist
        self.clients: dict[int, Client] = {}
        self.mapper: Any = None  # rewrites published subjects, when the account has mappings
        self.system = name == SYSTEM_ACCOUNT

    def __repr__(self) -> str:
        clients, subscriptions = len(self.clients), len(self.sublist)
        return f"<Account {self.name} {clients} clients {subscriptions} subscriptions>"
