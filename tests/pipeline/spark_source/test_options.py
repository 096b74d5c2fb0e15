"""Options: names in any case, typed values, and errors that name the fault."""

import pytest

from midge.client.errors import OptionError
from midge.client.options import ServerAddress
from midge.pipeline.spark_source.options import SinkOptions, SourceOptions


def source(**options):
    return SourceOptions.parse({"stream": "ORDERS", **options})


def test_defaults():
    options = source()
    assert options.connect.servers == (ServerAddress("127.0.0.1", 4222, tls=False),)
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.max_offsets_per_trigger is None
    assert options.ending_offsets == "latest"
    assert not options.connect.tls


def test_names_are_taken_in_any_case():
    options = source(MAXOFFSETSPERTRIGGER="5", failondataloss="FALSE", Path="x")
    assert options.max_offsets_per_trigger == 5
    assert not options.fail_on_data_loss


def test_servers():
    options = source(servers="nats://ann:s%40t@a.example, tls://[::1]:4333,b:1")
    assert [str(server) for server in options.connect.servers] == [
        "a.example:4222",
        "[::1]:4333",
        "b:1",
    ]
    assert (options.connect.user, options.connect.password) == ("ann", "s@t")
    assert options.connect.tls


def test_secrets_stay_out_of_what_is_printed():
    options = source(servers="nats://ann:s3cret@a", token="t0ken")
    assert "s3cret" not in repr(options)
    assert "t0ken" not in repr(options)


@pytest.mark.parametrize("text", ["2026-01-31T12:00:00Z", "2026-01-31T13:00:00+01:00"])
def test_timestamp_as_text(text):
    assert source(startingTimestamp=text).starting_timestamp == "2026-01-31T12:00:00Z"


def test_timestamp_in_milliseconds():
    assert source(startingTimestamp="1500").starting_timestamp == "1970-01-01T00:00:01.500000Z"


def test_names_that_kafka_has():
    options = source(
        startingOffsetsByTimestamp='{"ORDERS": 1500}',
        endingOffsetsByTimestamp='{"ORDERS": 2000}',
        minOffsetsPerTrigger="5",
        maxTriggerDelay="2m",
    )
    assert options.starting_timestamp == "1970-01-01T00:00:01.500000Z"
    assert options.ending_timestamp == "1970-01-01T00:00:02Z"
    assert (options.min_offsets_per_trigger, options.max_trigger_delay_s) == (5, 120)
    assert source().max_trigger_delay_s == 900
    assert source(maxTriggerDelay="500ms").max_trigger_delay_s == 0.5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsetsByTimestamp": '{"OTHER": 1}'}, 'expected {"ORDERS": <milliseconds'),
        ({"startingOffsetsByTimestamp": "1"}, 'expected {"ORDERS": <milliseconds'),
        (
            {"endingOffsetsByTimestamp": '{"ORDERS": 1}', "endingTimestamp": "1"},
            "endingOffsetsByTimestamp: expected to stand alone",
        ),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay: expected a time such as 30s"),
        (
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "minOffsetsPerTrigger: expected at most maxOffsetsPerTrigger, 8, got 9",
        ),
        ({"stream": ""}, "stream: expected a name"),
        ({"stream": "a.b"}, "stream: expected a name"),
        ({"stream": "a\r\nPUB x 0"}, "stream: expected a name"),
        ({"stream": "../x"}, "stream: expected a name"),
        ({"subject": "a..b"}, "subject: expected a subject, wildcards allowed, got 'a..b'"),
        ({"subject": "ok,a b"}, "subject: expected a subject, wildcards allowed, got 'a b'"),
        ({"subject": "a.*,b, a.>"}, r"do not overlap, got 'a\.\*' and 'a\.>'"),
        ({"servers": "http://x"}, "servers: expected nats://host:port"),
        ({"servers": "nats://me:pw@x:notaport"}, r"nats://\*\*\*@x:notaport"),
        ({"servers": ""}, "servers: expected nats://host:port"),
        ({"minPartitions": "0"}, "minPartitions: expected a whole number from 1 up, got '0'"),
        ({"minPartitions": "²"}, "minPartitions: expected a whole number"),
        ({"maxOffsetsPerTrigger": "-1"}, "maxOffsetsPerTrigger: expected a whole number"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss: expected true or false, got 'maybe'"),
        ({"startingOffsets": "sometime"}, "startingOffsets: expected earliest, latest or"),
        ({"endingOffsets": "earliest"}, "endingOffsets: expected latest or"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp: expected milliseconds"),
        ({"startingTimestamp": "2026-01-31T12:00:00"}, "a time with its zone"),
        ({"startingTimestamp": "9" * 30}, "startingTimestamp: expected milliseconds"),
        ({"startingTimestamp": "1", "startingOffsets": "latest"}, "expected to stand alone"),
        ({"requestTimeout": "soon"}, "requestTimeout: expected seconds above 0"),
        ({"connectTimeout": "0"}, "connectTimeout: expected seconds above 0"),
        ({"credentialsFile": "/no/such/file"}, "credentialsFile: cannot read '/no/such/file'"),
        ({"tlsKeyFile": "key.pem"}, "tlsKeyFile: expected tlsCertFile with it"),
        ({"domain": "a.b"}, "domain: expected a name"),
        ({"startingOffset": "1"}, "no such option; did you mean startingOffsets?"),
        ({"ackWindow": "1"}, "ackwindow: there is no such option"),
    ],
)
def test_a_wrong_source_option_is_named(options, words):
    with pytest.raises(OptionError, match=words):
        source(**options)


def test_sink_defaults():
    options = SinkOptions.parse({})
    assert options.mode == "jetstream"
    assert options.ack_window == 1024


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "kafka"}, "mode: expected jetstream or core, got 'kafka'"),
        ({"subject": "a.*"}, "subject: expected a subject without wildcards, got 'a.*'"),
        ({"extraColumns": "drop"}, "extraColumns: expected refuse or ignore, got 'drop'"),
        ({"ackWindow": "0"}, "ackWindow: expected a whole number"),
        ({"stream": "a b"}, "stream: expected a name"),
        ({"startingOffsets": "latest"}, "startingoffsets: there is no such option"),
    ],
)
def test_a_wrong_sink_option_is_named(options, words):
    with pytest.raises(OptionError, match=words):
        SinkOptions.parse(options)
