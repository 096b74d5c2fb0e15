"""What a message from a link reaches, of the subscriptions that match its subject.

A message goes to plain subscriptions, and to a member of each queue group that its line names. It
goes on over those links to which the source of the message `reaches`, see routing/passage.py.
"""

from typing import Any

from midge.server.routing.client import Client
from midge.sublist.result import Remotes, SubListResult


def plain_view(source: Client, found: SubListResult) -> SubListResult:
    """Return what a message without queue groups reaches: no member of any."""
    if not found.queues and found.remotes is None:
        return found
    return SubListResult(found.plain, (), _others(source, found.remotes, None))


def full_view(source: Client, found: SubListResult) -> SubListResult:
    """Return what a message for every queue group reaches."""
    if found.remotes is None:
        return found
    named = {group.name for group in found.remotes.queues}
    return SubListResult(found.plain, found.queues, _others(source, found.remotes, named))


def view_for(source: Client, found: SubListResult, queues: list[bytes]) -> SubListResult:
    """Return what a message for these queue groups reaches."""
    only: tuple[Any, ...] = found.queues
    if len(only) == len(queues) == 1 and found.remotes is None and only[0].name == queues[0]:
        return found
    named = set(queues)
    groups = tuple([group for group in found.queues if group.name in named])
    return SubListResult(found.plain, groups, _others(source, found.remotes, named))


def _others(source: Client, remotes: Remotes | None, named: set[bytes] | None) -> Remotes | None:
    """Return the links that a message of `source` goes on to; None without any."""
    if remotes is None:
        return None
    plain = tuple([link for link in remotes.plain if source.reaches(link, "")])
    groups: tuple[Any, ...] = ()
    if named and remotes.queues:
        groups = tuple([group for group in remotes.queues if group.name in named])
    return Remotes(plain, groups) if plain or groups else None
