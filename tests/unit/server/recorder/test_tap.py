"""The tap: what it notes, what it drops, and that full rows never hold up a message."""

from midge.protocol.frame import compose
from midge.protocol.handler import Handler
from midge.protocol.parser import Parser
from midge.server.recorder.message_rows import NOT_COUNTED, MessageRows
from midge.server.recorder.tap import BARE, SKIPPED, WHOLE, MessageTap
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.router import Router
from midge.sublist.result import Remotes, SubListResult

HOUR_S = 3600.0


class Desk:
    """A tap with its exchange: `taken` are the full rows, `spare` how many empty ones there are."""

    def __init__(self, capacity=4, choose=None, spare=100):
        self.now_s = 10 * HOUR_S
        self.taken = []
        self.spare = spare
        self.capacity = capacity
        self.router = Router()
        self.account = Account("A")
        self.client = Client(7, self.account, ChunkPool())
        self.tap = MessageTap(
            self.router, MessageRows(capacity), self.exchange, choose, lambda: self.now_s
        )

    def exchange(self, rows):
        if not self.spare:
            return None
        self.spare -= 1
        self.taken.append(rows)
        return MessageRows(self.capacity)

    def route(self, subject, payload=b"", reply=None, headers=None, plain=1, queued=0):
        frame = compose(subject, payload, reply, headers)
        self.tap.message_routed(self.account, self.client, frame, plain, queued)

    def repeat(self, subject, payload, times, plain=1, queued=0):
        """Route the same message several times, as a parser gives them."""
        frame = compose(subject, payload)
        for number in range(times):
            frame.repeated = number > 0
            self.tap.message_routed(self.account, self.client, frame, plain, queued)

    def run(self, messages, plain=1):
        """Route messages that differ in payload and headers, all but the first as one run."""
        data = bytearray(b"".join(messages))
        handler = Runs(self, plain)
        assert Parser(handler).feed(data, 0, len(data)) == len(data)
        assert handler.runs == [len(messages) - 1]

    def next_batch(self, at_s):
        self.now_s = at_s
        self.router.flush()


class Runs(Handler):
    """Shows a desk's tap what a parser finds, as a router would."""

    def __init__(self, desk, plain):
        super().__init__()
        self.desk = desk
        self.plain = plain
        self.runs = []

    def on_publish(self, frame):
        self.desk.tap.message_routed(self.desk.account, self.desk.client, frame, self.plain, 0)

    def on_publish_run(self, frame, count):
        first = frame.base
        self.runs.append(count)
        self.desk.tap.run_routed(self.desk.account, self.desk.client, frame, count, self.plain)
        assert frame.base == first
        return count


def numbered(count, line=b"PUB a 2"):
    return [b"%b\r\n%02d\r\n" % (line, number) for number in range(count)]


def bare(subject):
    return BARE


def test_a_message_becomes_a_row():
    desk = Desk()
    desk.route(b"a.b", b"xyz", b"r", b"NATS/1.0\r\n\r\n", 2, 3)
    rows = desk.tap.rows
    assert (rows.count, rows.runs) == (1, 1)
    assert rows.times[0] == int(10 * HOUR_S * 1e6)
    assert (rows.cids[0], rows.sizes[0], rows.plain[0], rows.queued[0]) == (7, 15, 2, 3)
    assert (list(rows.subjects), list(rows.accounts)) == ([b"a.b"], ["A"])
    assert bytes(rows.replies.buffer[: rows.replies.used]) == b"r"
    assert bytes(rows.headers.buffer[: rows.headers.used]) == b"NATS/1.0\r\n\r\n"
    assert bytes(rows.payloads.buffer[: rows.payloads.used]) == b"xyz"


def test_nobody_published_is_cid_0():
    desk = Desk()
    desk.tap.message_routed(desk.account, None, compose(b"a", b""), 0, 0)
    assert desk.tap.rows.cids[0] == 0


def test_equal_messages_without_payload_share_a_run():
    desk = Desk(choose=bare)
    desk.repeat(b"a", b"xx", 3)
    assert (desk.tap.rows.count, desk.tap.rows.runs) == (3, 1)
    assert desk.tap.rows.repeats[0] == 3


def test_a_repeated_message_that_reached_fewer_begins_a_new_run():
    desk = Desk(choose=bare)
    frame = compose(b"a", b"xx")
    for plain, queued in ((1, 1), (1, 1), (0, 1), (0, 0)):
        desk.tap.message_routed(desk.account, desk.client, frame, plain, queued)
        frame.repeated = True
    assert list(desk.tap.rows.repeats[: desk.tap.rows.runs]) == [2, 1, 1]


def test_runs_are_cut_where_rows_are_full_and_drops_are_counted_one_by_one():
    desk = Desk(choose=bare, capacity=2, spare=1)
    desk.repeat(b"a", b"xx", 7)
    assert [rows.count for rows in desk.taken] == [2]
    assert (desk.tap.rows.count, desk.tap.dropped) == (2, 3)


def test_what_is_filtered_is_no_drop_when_it_repeats():
    desk = Desk(choose=lambda subject: SKIPPED if subject == b"a" else BARE, spare=0, capacity=1)
    for subject in (b"b", b"b", b"a"):
        desk.repeat(subject, b"xx", 3)
    assert (desk.tap.rows.count, desk.tap.dropped) == (1, 5)


def test_a_run_is_one_row():
    desk = Desk(choose=bare, capacity=100)
    desk.run(numbered(50), plain=3)
    rows = desk.tap.rows
    assert (rows.count, rows.runs, rows.repeats[0], rows.plain[0]) == (50, 1, 50, 3)


def test_a_run_with_payloads_is_a_row_for_each():
    desk = Desk(capacity=100)
    desk.run(numbered(50))
    rows = desk.tap.rows
    assert (rows.count, rows.runs) == (50, 50)
    payloads = b"".join(b"%02d" % number for number in range(50))
    assert bytes(rows.payloads.buffer[: rows.payloads.used]) == payloads


def test_a_run_with_replies_or_headers_is_a_row_for_each():
    desk = Desk(capacity=100, choose=bare)
    desk.run(numbered(20, b"PUB a r 2"))
    block = b"NATS/1.0\r\nn: %d\r\n\r\n"
    headers = [block % number for number in range(10)]
    size = len(headers[0])
    line = b"HPUB a %d %d" % (size, size + 2)
    parser_input = [b"%b\r\n%bxy\r\n" % (line, header) for header in headers]
    data = bytearray(b"".join(parser_input))
    parser = Parser(Runs(desk, 1))
    parser.headers = True
    assert parser.feed(data, 0, len(data)) == len(data)
    rows = desk.tap.rows
    assert (rows.count, rows.runs) == (30, 30)
    assert bytes(rows.replies.buffer[: rows.replies.used]) == b"r" * 20
    assert bytes(rows.headers.buffer[: rows.headers.used]) == b"".join(headers)


def test_a_run_is_cut_where_rows_are_full_and_what_is_left_is_dropped():
    desk = Desk(choose=bare, capacity=20, spare=1)
    desk.run(numbered(90))
    assert [rows.count for rows in desk.taken] == [20]
    assert (desk.tap.rows.count, desk.tap.rows.runs, desk.tap.dropped) == (20, 1, 50)


def test_a_run_that_is_filtered_is_neither_noted_nor_dropped():
    desk = Desk(choose=lambda subject: SKIPPED)
    desk.run(numbered(90))
    assert (desk.tap.rows.count, desk.tap.dropped) == (0, 0)


def test_any_difference_begins_a_new_run():
    desk = Desk(choose=bare, capacity=100)
    desk.route(b"a", b"xx")
    desk.route(b"b", b"xx")
    desk.route(b"b", b"xxx")
    desk.route(b"b", b"xxx", plain=2)
    desk.route(b"b", b"xxx", plain=2, queued=1)
    desk.route(b"b", b"xxx", b"reply", plain=2, queued=1)
    desk.route(b"b", b"xxx", plain=2, queued=1)
    desk.route(b"b", b"xxx", headers=b"NATS/1.0\r\n\r\n", plain=2, queued=1)
    desk.next_batch(desk.now_s + 1)
    desk.route(b"b", b"xxx", plain=2, queued=1)
    assert desk.tap.rows.runs == desk.tap.rows.count == 9


def test_payloads_are_never_merged():
    desk = Desk()
    desk.route(b"a", b"x")
    desk.route(b"a", b"y")
    assert desk.tap.rows.runs == 2


def test_full_rows_are_exchanged_and_none_is_lost():
    desk = Desk(capacity=4, choose=bare)
    for number in range(10):
        desk.route(b"a.%d" % (number % 3), b"x")
    assert [rows.count for rows in [*desk.taken, desk.tap.rows]] == [4, 4, 2]
    assert desk.tap.dropped == 0


def test_without_empty_rows_messages_are_dropped_and_counted():
    desk = Desk(capacity=4, spare=0)
    for _ in range(10):
        desk.route(b"a", b"x")
    assert (desk.tap.rows.count, desk.tap.dropped) == (4, 6)


def test_the_next_batch_asks_for_empty_rows_again():
    desk = Desk(capacity=4, spare=0)
    for _ in range(5):
        desk.route(b"a", b"x")
    desk.spare = 1
    desk.route(b"a", b"x")
    assert desk.tap.dropped == 2
    desk.next_batch(desk.now_s)
    desk.route(b"a", b"x")
    assert (desk.tap.dropped, desk.tap.rows.count) == (2, 1)


def test_rows_never_span_two_hours():
    desk = Desk(capacity=100)
    desk.route(b"a")
    desk.next_batch(11 * HOUR_S)
    desk.route(b"a")
    assert [(rows.hour, rows.count) for rows in [*desk.taken, desk.tap.rows]] == [(10, 1), (11, 1)]


def test_what_is_filtered_is_neither_recorded_nor_dropped():
    choices = {b"secret": SKIPPED, b"bare": BARE, b"whole": WHOLE}
    desk = Desk(choose=choices.__getitem__, capacity=100)
    for subject in (b"secret", b"bare", b"whole", b"secret"):
        desk.route(subject, b"12345")
    rows = desk.tap.rows
    assert list(rows.subjects) == [b"bare", b"whole"]
    assert (rows.count, rows.payloads.used, rows.payloads.present) == (2, 5, 1)
    assert desk.tap.dropped == 0


def test_large_payloads_fill_rows_before_their_number_does():
    desk = Desk(capacity=1000)
    for _ in range(40):
        desk.route(b"a", b"x" * (1 << 20))
    assert len(desk.taken) == 2
    assert sum(rows.count for rows in desk.taken) + desk.tap.rows.count == 40


def test_used_rows_are_as_good_as_new():
    rows = MessageRows(16)
    first, second = compose(b"a", b"xyz", b"reply"), compose(b"b", b"")
    code = rows.subject_code(b"a")
    rows.add(1, rows.account_code("A"), 1, code, first, 1, 0, True)
    rows.clear()
    rows.add(2, rows.account_code("B"), 1, rows.subject_code(b"b"), second, 1, 0, False)
    assert (rows.count, rows.runs, rows.closed) == (1, 1, False)
    assert list(rows.subjects) == [b"b"]
    assert (rows.replies.present, rows.replies.used, rows.replies.valid[0]) == (0, 0, 0)


class Far(Client):
    """A link over which everything goes."""

    def forward(self, publisher, frame, queues):
        return True


def test_deliveries_behind_a_link_are_not_counted():
    desk = Desk()
    desk.router.observer = desk.tap
    beyond = SubListResult((), (), Remotes((Far(9, desk.account, ChunkPool()),), ()))
    desk.router.route(desk.account, beyond, desk.client, compose(b"a", b""))
    desk.router.route(desk.account, SubListResult((), ()), desk.client, compose(b"a", b""))
    assert list(desk.tap.rows.plain[:2]) == [NOT_COUNTED, 0]
