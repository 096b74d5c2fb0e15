"""Routes, with a peer in memory: accepted servers, announcements, input and output."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from midge.protocol.frame import compose
from midge.protocol.route_messages import GOSSIP_DISABLED, GOSSIP_OVERRIDE
from midge.server.auth import Identity, Refusal, Verdict
from midge.server.channels.closed_reason import ClosedReason
from midge.server.config import options as tables
from midge.server.config.options import ClusterAuthorization, ClusterPermissions
from midge.server.peers.leaf_end import leaf_link
from midge.server.peers.link import Branch
from midge.server.peers.listener import REFUSAL_DELAY_S
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.subscription import RoutedSubscription
from tests.support.routes import World


@pytest.fixture
def world() -> World:
    return World()


# Accepted servers.


def test_the_accepting_server_speaks_first_and_registers_after_both_documents(world: World) -> None:
    route = world.accept()
    (info,) = route.infos()
    assert (info["server_name"], info["cluster"], info["jetstream"]) == ("ME", "C1", False)
    assert info["compression"] == "accept"
    assert "route_pool_size" not in info
    route.connect()
    assert not world.cluster.routes
    route.introduce()
    assert list(world.cluster.routes) == ["NPEER"]


def test_the_connecting_server_answers_info_with_both_documents(world: World) -> None:
    route = world.dial()
    assert route.take() == []
    route.introduce()
    connect, info, *_ = route.take()
    told = json.loads(connect.removeprefix("CONNECT "))
    assert (told["user"], told["pass"], told["name"]) == ("u", "p", world.cluster.server_id)
    assert json.loads(info.removeprefix("INFO "))["server_id"] == world.cluster.server_id
    assert list(world.cluster.routes) == ["NPEER"]


def test_no_connect_in_time_is_the_end(world: World) -> None:
    route = world.accept()
    route.take()
    world.clock.advance(3)
    assert route.take() == ["-ERR 'Authentication Timeout'"]


def test_a_server_of_the_own_name_is_refused_by_the_one_that_it_connects_to(world: World) -> None:
    first = world.joined()
    route = world.accept().connect().introduce(server_id="NNEW", server_name="ME")
    assert not route.is_up
    assert world.dial().introduce(server_id="NNEW", server_name="ME").is_up
    world.clock.advance(REFUSAL_DELAY_S)
    assert world.accept().connect().introduce(server_id="NOTHER", server_name="PEER").is_up
    assert first.is_up


def test_a_second_route_to_a_server_and_one_to_itself_are_ended(world: World) -> None:
    first = world.joined()
    assert not world.dial().introduce().is_up
    assert not world.accept().connect().introduce(server_id=world.cluster.server_id).is_up
    assert first.is_up


def test_servers_that_both_have_jetstream_refuse_each_other() -> None:
    world = World(jetstream=True)
    for kind in ("jetstream", "midge_jetstream"):
        assert not world.joined(**{kind: True}).is_up
        world.clock.advance(REFUSAL_DELAY_S)
    assert world.joined(jetstream=False).is_up
    (info,) = world.accept().infos()
    assert (info["jetstream"], info["midge_jetstream"]) == (False, True)
    assert World().joined(jetstream=True).is_up


WRONG_LOGIN = Refusal("no such user")


@pytest.mark.parametrize(
    ("verdict", "connect", "introduce", "wire"),
    [
        (WRONG_LOGIN, {}, {}, "-ERR 'Authorization Violation'"),
        (Identity(), {"cluster": "C2"}, {}, "-ERR 'Rejecting connection, cluster name"),
        (Identity(), {}, {"server_name": "ME"}, None),
        (Identity(), {}, {"jetstream": True}, None),
    ],
)
def test_a_server_that_may_not_take_part_waits_for_the_next_info(
    verdict: Verdict, connect: dict[str, str], introduce: dict[str, Any], wire: str | None
) -> None:
    world = World(jetstream=True)
    route = world.accept(authenticate=lambda _: verdict)
    route.take()
    route.connect(**connect).introduce(**introduce).say("PING", "RS+ A x")
    assert route.link.reason is not None
    assert [line.startswith(wire or "") for line in route.take()] == ([True] if wire else [])
    assert "PEER" not in world.cluster.routes
    again = world.accept(authenticate=lambda _: Identity())
    again.connect().introduce().say("PING")
    assert world.accept("10.0.0.9").infos(), "a server of another host does not wait"
    world.clock.advance(REFUSAL_DELAY_S - 0.01)
    assert again.take() == []
    world.clock.advance(0.01)
    assert again.is_up
    assert again.take()[0].startswith("INFO ")


def test_a_name_that_was_made_up_gives_way() -> None:
    world = World(name="")
    before = world.cluster.name
    assert world.cluster.is_dynamic
    first = world.joined("FIRST", cluster=before)
    lower = world.accept().connect(name="N2", cluster="0", cluster_dynamic=True)
    assert lower.take()[-1].startswith("-ERR 'Rejecting connection, cluster name")
    world.clock.advance(REFUSAL_DELAY_S)
    higher = world.accept().connect(name="N3", cluster="zzz", cluster_dynamic=True)
    higher.introduce(server_id="N3", server_name="S3")
    assert (world.cluster.name, world.cluster.is_dynamic) == ("zzz", True)
    assert higher.is_up
    assert not first.is_up
    route = world.dial().introduce(server_id="N4", server_name="S4", cluster="C9")
    assert (world.cluster.name, world.cluster.is_dynamic) == ("C9", False)
    assert json.loads(route.take()[0].removeprefix("CONNECT "))["cluster"] == "C9"


def test_a_server_of_another_cluster_gets_connect_and_the_route_ends() -> None:
    world = World()
    route = world.dial().introduce(cluster="C2")
    assert [line.partition(" ")[0] for line in route.take()] == ["CONNECT"]
    assert route.link.reason is ClosedReason.CLUSTER_NAME_CONFLICT
    assert not world.cluster.routes


# Gossip.


def test_third_servers_are_believed_only_from_those_who_are_known() -> None:
    third = {"server_id": "NTHIRD", "server_name": "T", "ip": "nats-route://evil:1/"}
    stranger = World()
    route = stranger.accept("10.1.1.1").connect().introduce()
    route.introduce(**third)
    assert stranger.found == []
    here, ours = World(), World()
    here.joined().introduce(**third)
    ours.dial().introduce().introduce(**third)
    assert here.found == ours.found == ["NTHIRD"]


def test_a_new_server_is_told_of_to_the_others(world: World) -> None:
    first = world.joined("FIRST")
    world.joined("SECOND", port=7)
    (info,) = first.infos()
    assert (info["server_id"], info["ip"]) == ("NSECOND", "nats-route://127.0.0.1:7/")
    assert info["gossip_mode"] == GOSSIP_DISABLED
    world.dial().introduce(server_id="N3", server_name="S3")
    assert [info["gossip_mode"] for info in first.infos()] == [GOSSIP_OVERRIDE]
    world.dial(is_explicit=False, gossip_mode=GOSSIP_DISABLED).introduce(
        server_id="N4", server_name="S4"
    )
    assert first.infos() == [], "whoever has told of it has told the others, too"


def test_urls_of_clients_come_and_go(world: World) -> None:
    changes = []
    world.cluster.urls_changed = lambda: changes.append(world.cluster.urls("connect_urls"))
    world.broker.host, world.broker.port = "127.0.0.1", 9
    route = world.joined(connect_urls=["far:1"])
    route.introduce(connect_urls=["far:1", "far:2"])
    route.introduce(connect_urls=["far:1"], ldm=True)
    route.link.close(ClosedReason.CLIENT_CLOSED)
    own = "127.0.0.1:9"
    assert changes == [[own, "far:1"], [own, "far:1", "far:2"], [own]]


# Interest.


def test_interest_is_told_per_account_with_weights(world: World) -> None:
    world.subscribe(b"early")
    route = world.accept().connect()
    route.take()
    route.introduce()
    assert [line for line in route.take() if line.startswith("RS")] == ["RS+ A early"]
    members = [world.subscribe(b"q", b"g") for _ in range(2)]
    world.account.remove(members[0])
    assert route.take() == ["RS+ A q g 1", "RS+ A q g 2", "RS+ A q g 1"]
    world.account.remove(members[1])
    assert route.take() == ["RS- A q g"]


def test_what_the_server_answers_itself_is_not_told(world: World) -> None:
    route = world.joined()
    world.subscribe(b"$SYS.REQ.USER.INFO")
    world.subscribe(b"$KV.b.k")
    assert route.take() == ["RS+ A $KV.b.k"]
    owner = World(jetstream=True)
    route = owner.joined()
    for subject in (b"$JS.API.>", b"$KV.b.k", b"$OBJ.b", b"$JS.ACK.>", b"orders.>"):
        owner.subscribe(subject)
    assert route.take() == ["RS+ A $JS.ACK.>", "RS+ A orders.>"]


def test_permissions_limit_what_is_told_and_taken() -> None:
    subjects = tables.SubjectPermissions(allow=("in.>",)), tables.SubjectPermissions(allow=("out",))
    world = World(permissions=ClusterPermissions(imports=subjects[0], exports=subjects[1]))
    route = world.joined()
    world.subscribe(b"in.a")
    world.subscribe(b"other")
    assert route.take() == ["RS+ A in.a"]
    route.say("RS+ A out", "RS+ A in.b")
    assert (world.publish(b"out"), world.publish(b"in.b")) == (1, 0)


def test_interest_told_in_any_order_is_kept_once(world: World) -> None:
    route = world.joined()
    route.link.announced.max_size = 1 << 20
    random, known = Random(3), set[tuple[str, str, str]]()
    for _ in range(600):
        origin, subject = random.choice(("", "L1", "L2")), f"s.{random.randrange(20)}"
        queue = random.choice(("", "g"))
        verb, where = ("LS", f"{origin} A") if origin else ("RS", "A")
        if random.random() < 0.6:
            weight = f" {queue} {random.randrange(1, 9)}" if queue else ""
            route.say(f"{verb}+ {where} {subject}{weight}")
            known.add((subject, queue, origin))
        else:
            route.say(f"{verb}- {where} {subject} {queue}".rstrip())
            known.discard((subject, queue, origin))
        told = route.link.commands.branches[b"A"].interest
        assert [one.place for one in told] == [*range(len(told))]
        found = [(one.subject.decode(), (one.queue or b"").decode(), one.origin) for one in told]
        assert sorted(found) == sorted(known)
        assert route.link.announced.count == len(known)
    remotes = world.account.sublist.remotes
    assert remotes is not None
    assert len(remotes) == len(known)
    route.link.close(ClosedReason.SERVER_SHUTDOWN)
    assert len(remotes) == 0


def test_an_account_made_later_has_what_was_told_of_it(world: World) -> None:
    route = world.joined().say("RS+ LATE a", "RS+ LATE a g 2", "RMSG LATE a 1", "x")
    account = world.broker.account("LATE")
    assert [one.subject for one in route.link.commands.branches[b"LATE"].interest] == [b"a", b"a"]
    result = account.sublist.match(b"a")
    assert world.broker.router.route(account, result, None, compose(b"a", b"x")) == 1
    assert route.take()[-2:] == ["RMSG LATE a | g 1", "x"]
    account.add(RoutedSubscription(b"b", None, b"1", Client(1, account, ChunkPool())))
    assert route.take() == ["RS+ LATE b"]


def test_interest_beyond_the_bound_is_counted_and_ignored(world: World) -> None:
    route = world.joined().say(*(f"RS+ A s.{i}" for i in range(9)), "RS+ A s.0 q 3")
    assert route.link.announced.count == 5
    assert world.broker.limit_hits["route_subscriptions"] == 5
    route.say("RS- A s.0", "RS+ A s.8")
    assert world.publish(b"s.8") == 1
    assert route.is_up


def test_long_interest_counts_more(world: World) -> None:
    deep, long = b".".join([b"t"] * 12), b"x" * 3100
    route = world.joined().say(f"RS+ A {deep.decode()}", f"RS+ A {long.decode()}", "RS+ A a")
    assert [world.publish(subject) for subject in (deep, long, b"a")] == [1, 0, 0]
    assert world.broker.limit_hits["route_subscriptions"] == 2
    route.say(f"RS- A {deep.decode()}", f"RS+ A {long.decode()}", "RS+ A a", "RS+ A b")
    assert [world.publish(subject) for subject in (deep, long, b"a", b"b")] == [0, 1, 1, 0]


def test_an_account_of_a_long_name_that_is_not_here_is_ignored(world: World) -> None:
    route = world.joined().say(f"RS+ {'n' * 257} a", f"RS+ {'n' * 256} a", "RS+ A a")
    assert set(map(len, route.link.commands.branches)) >= {1, 256}
    assert 257 not in set(map(len, route.link.commands.branches))
    assert world.broker.limit_hits["route_accounts"] == 1
    assert route.is_up


def test_the_end_of_a_route_is_the_end_of_its_interest(world: World) -> None:
    route = world.joined().say("RS+ A a", "RS+ A a g 1")
    assert world.publish(b"a") == 1
    route.say("-ERR 'x'")
    assert not world.cluster.routes
    assert world.publish(b"a") == 0


# Messages.


def test_a_message_goes_over_every_route_and_never_on(world: World) -> None:
    first, second = world.joined("FIRST"), world.joined("SECOND")
    first.take()
    for route in (first, second):
        route.say("RS+ A a", "RS+ A a g 1")
    assert world.publish(b"a", reply=b"r") == 2
    lines = sorted([first.take()[0], second.take()[0]])
    assert lines == ["RMSG A a + r g 1", "RMSG A a r 1"]
    local, member = world.subscribe(b"a"), world.subscribe(b"a", b"g")
    first.take(), second.take()
    first.say("RMSG A a 1", "x", "RMSG A a | g 1", "x")
    assert (local.delivered, member.delivered) == (2, 1)
    assert second.take() == []


def test_queue_members_have_their_share_by_weight(world: World) -> None:
    route = world.joined().say("RS+ A a g 3")
    member = world.subscribe(b"a", b"g")
    for _ in range(4000):
        assert world.publish(b"a") == 1
    assert member.delivered == 1000
    assert len([line for line in route.take() if line.startswith("RMSG")]) == 3000


def test_a_new_route_says_what_a_group_weighs_from_now_on(world: World) -> None:
    members = [world.subscribe(b"a", b"g") for _ in range(3)]
    world.joined().say("RS+ A a g 7", "-ERR 'x'")
    for member in members[1:]:
        world.account.remove(member)
    route = world.accept()
    route.connect(name="NPEER").introduce()
    assert [line for line in route.take() if line.startswith("RS+ A a")] == ["RS+ A a g 1"]
    route.say("RS+ A a g 1")
    for _ in range(100):
        assert world.publish(b"a") == 1
    assert members[0].delivered == 50
    assert len([line for line in route.take() if line.startswith("RMSG")]) == 50


def leaf_of(world: World, cluster: str) -> Branch:
    """A leaf node of the account, in `cluster`, as a publisher."""
    link = leaf_link(world.broker, 99, ("h", 1), None)
    link.cluster = cluster
    return link.commands.carry(world.account)


def test_a_message_of_a_leaf_node_names_its_cluster(world: World) -> None:
    leaf = leaf_of(world, "EDGE")
    route = world.joined().say("RS+ A a")
    assert world.publish(b"a", leaf, reply=b"r") == 1
    assert route.take() == ["LMSG EDGE A a r 0 1", "x"]
    old = World()
    route = old.joined(lnoc=False).say("RS+ A a")
    old.publish(b"a", leaf_of(old, "EDGE"))
    assert route.take() == ["RMSG A a 1", "x"]


def test_interest_of_leaf_nodes_elsewhere_is_the_last_choice_and_gets_nothing_back(
    world: World,
) -> None:
    route = world.joined().say("LS+ EDGE A a g 5")
    member = world.subscribe(b"a", b"g")
    assert world.publish(b"a") == 1
    assert member.delivered == 1
    world.account.remove(member)
    leaf = leaf_of(world, "EDGE")
    assert world.publish(b"a", leaf) == 0
    assert world.publish(b"a") == 1
    route.take()
    route.say("LS- EDGE A a g")
    assert world.publish(b"a") == 0


def test_what_the_other_side_cannot_take_is_cut_or_dropped(world: World) -> None:
    route = world.joined(headers=False, max_payload=30).say("RS+ A a")
    assert world.publish(b"a", headers=b"NATS/1.0\r\nK: v\r\n\r\n") == 1
    assert route.take() == ["RMSG A a 1", "x"]
    result = world.account.sublist.match(b"a")
    assert world.broker.router.route(world.account, result, None, compose(b"a", b"y" * 31)) == 0
    assert world.broker.limit_hits["route_payload"] == 1
    assert route.take() == []


def test_a_server_that_takes_nothing_is_cut_off_and_nobody_else_waits(world: World) -> None:
    route = world.joined().say("RS+ A a")
    local = world.subscribe(b"a")
    route.block()
    payload = b"x" * 100_000
    result = world.account.sublist.match(b"a")
    for _ in range(2000):
        world.broker.router.route(world.account, result, None, compose(b"a", payload))
    assert local.delivered == 2000
    assert not route.is_up
    assert route.link.reason is ClosedReason.SLOW_CONSUMER_PENDING
    assert route.link.outbound.pending_bytes() == 0
    world.account.remove(local)
    late = world.joined("LATE").say("RS+ A a")
    late.block()
    world.publish(b"a")
    late.link.router.flush()
    world.clock.advance(11)
    assert late.link.reason is ClosedReason.SLOW_CONSUMER_DEADLINE


def test_a_server_that_answers_no_ping_is_left(world: World) -> None:
    route = world.joined()
    world.clock.advance(5)
    assert "PING" in route.take()
    world.clock.advance(200)
    assert not route.is_up


@pytest.mark.parametrize("wall_s", [0.0, 4e9])
def test_a_jump_of_the_wall_clock_ends_no_route(
    world: World, monkeypatch: pytest.MonkeyPatch, wall_s: float
) -> None:
    route = world.joined()
    world.clock.advance(5)
    assert "PING" in route.take()
    monkeypatch.setattr(world.clock, "wall", lambda: wall_s)
    monkeypatch.setattr(world.clock, "wall_ns", lambda: int(wall_s * 1e9))
    route.say("PONG")
    world.clock.advance(60)
    assert route.take().count("PING") == 2, "one in thirty seconds, as before"
    assert route.is_up


@pytest.mark.parametrize("line", ["PUB a 1\r\nx", "SUB a 1", "UNSUB 1", "HPUB a 1 1\r\nx"])
def test_lines_of_clients_end_a_route(world: World, line: str) -> None:
    route = world.joined().say(line)
    assert route.take()[-1] == "-ERR 'Unknown Protocol Operation'"
    assert not route.is_up


def test_users_are_asked_for() -> None:
    world = World(authorization=ClusterAuthorization(user="u", password="p"))
    (info,) = world.accept().infos()
    assert info["auth_required"] is True


def test_a_message_for_a_group_whose_members_have_left_goes_on_over_another_route(
    world: World,
) -> None:
    first, second = world.joined("FIRST"), world.joined("SECOND").say("RS+ A a g 1")
    first.take()
    first.say("RMSG A a | g 1", "x").say("RMSG A a + r g 1", "x")
    assert second.take() == ["RMSG A a | g 1", "x", "RMSG A a + r g 1", "x"]
    first.say("RS+ A a g 1", "RMSG A a | g 1", "x")
    assert (first.take(), second.take()) == ([], ["RMSG A a | g 1", "x"])
    second.say("RS- A a g")
    first.say("RMSG A a | g 1", "x")
    assert first.take() == ["RMSG A a | g 1", "x"], "the only members are where it comes from"
    first.say("RMSG A a | other 1", "x", "RMSG A a 1", "x")
    assert (first.take(), second.take()) == ([], [])
    member = world.subscribe(b"a", b"g")
    first.say("RMSG A a | g 1", "x")
    assert (member.delivered, first.take()) == (1, ["RS+ A a g 1"])


def test_what_the_members_here_refuse_does_not_go_back(world: World) -> None:
    first = world.joined("FIRST").say("RS+ A a g 1")
    world.account.add(Refusing(b"a", b"g"))
    first.take()
    first.say("RMSG A a | g 1", "x")
    assert first.take() == []
    second = world.joined("SECOND").say("RS+ A a g 1")
    first.take()
    first.say("RMSG A a | g 1", "x")
    assert (first.take(), second.take()) == ([], ["RMSG A a | g 1", "x"])


class Refusing(RoutedSubscription):
    """A member that takes nothing."""

    def receive(self, publisher: Any, frame: Any) -> bool:
        return False
