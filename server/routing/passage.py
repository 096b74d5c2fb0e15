"""One table: what may pass from one kind of connection to another, and in which form.

A message has an origin, by its role: a client, this server's JetStream, a leaf, a hub, a route or
another worker. A link that it may go over is a target, by its role as well. `passes` returns the
form in which a message of an origin may go over a target:

- BOTH: for plain subscriptions and for a member of a queue group there.
- GROUPS: for a queue group alone, and only in place of members here that have left.
- NOTHING.

Three rules of the network make the table:

- Every server of a cluster has a route to every other one, so a message from a route goes over no
  other route.
- Every server of a cluster that is a leaf has a link of its own to the hub, so a message from a
  route goes to no hub, and one from a hub over no route.
- All workers are one server, and each has a link to every other one, so a message from a worker
  goes to no third worker.

Two rules limit a single pair of links, and `reaches` of a publisher has them: nothing goes back
over the link that it came from, and nothing goes to the leaf node cluster that it comes from.

Interest is the same table read backwards: a server announces interest over a link exactly where
messages from that link may pass to the interest. One cell differs. A message from a hub goes on to
another hub, as on nats-server, but neither hub gets the other's interest, because a leaf does not
join its hubs.

An import is a border between accounts. `crosses` says which origins a message may have that an
import takes, and `passes` has the form of one that an import has carried: the other servers of a
cluster and a hub may have the same imports, so a message crosses a border on one server only.
Clusters of leafs do not matter then. A leaf and its hub may import the same service, and link both
accounts. A request that has been sent over links of the exporter's account is marked on the links
of the requester's account, by the queue group `SERVED`, and goes through no import of a midge
there; a nats-server serves it once more.

`tests/differential/passage.py` records these cells from a nats-server.
"""

from __future__ import annotations

from midge.server.routing.role import Role

NOTHING = 0
PLAIN = 1
GROUPS = 2
BOTH = PLAIN | GROUPS
"""The forms in which a message may pass; a set of bits."""

DIRECT = 0
STREAM = 1
SERVICE = 2
"""The border that a message has crossed: none, or an import of a stream or of a service."""

_ROLES = 7
_NO, _GO, _GR = NOTHING, BOTH, GROUPS

# Origins down, in the order of Role: client, system, JetStream, leaf, route, worker, hub; targets
# across, in the same order. Nothing passes to the first three, which are no links.
_DIRECT = bytes(
    (
        *(_NO, _NO, _NO, _GO, _GO, _GO, _GO),
        *(_NO, _NO, _NO, _GO, _GO, _GO, _GO),
        *(_NO, _NO, _NO, _GO, _GO, _GO, _GO),
        *(_NO, _NO, _NO, _GO, _GO, _GO, _GO),
        *(_NO, _NO, _NO, _GO, _GR, _GO, _GR),
        *(_NO, _NO, _NO, _GO, _GO, _NO, _GO),
        *(_NO, _NO, _NO, _GO, _NO, _GO, _GO),
    )
)
_ROUTE, _WORKER, _HUB = int(Role.ROUTE), int(Role.WORKER), int(Role.HUB)  # C numbers, compiled
_STREAM, _BOTH = STREAM, BOTH


def passes(origin: int, target: int, border: int = DIRECT) -> int:
    """Return the form in which a message of `origin` may go over a link of the role `target`.

    One that an import of a stream has carried goes over no route, whatever its origin, and none
    that an import has carried goes from hub to hub.
    """
    if border == _STREAM and target == _ROUTE:
        return _NO
    if border and origin == _HUB and target == _HUB:
        return _NO
    return _DIRECT[origin * _ROLES + target]


def crosses(origin: int, border: int) -> bool:
    """Return whether a message of `origin` may go through an import here.

    Another worker has taken it through the same import, and so has the server behind a route, which
    sends a service's requests in the exporter's account. A route's messages go through imports of
    streams, because a server asks for them under the exporter's subjects.
    """
    return origin != _WORKER and (origin != _ROUTE or border == _STREAM)


def is_announced(link: int, source: int) -> bool:
    """Return whether a link of role `link` gets the interest behind a link of role `source`."""
    return passes(link, source) == _BOTH and not (link == _HUB and source == _HUB)
