"""The sentence of an error, without what Spark puts around it."""

import pytest

from midge.client.errors import ServerError
from midge.pipeline.errors import PipelineError, sentence_of

pytestmark = pytest.mark.timeout(20)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("plain", "plain"),
        ("", "RuntimeError('')"),
        ("[A.B] Cannot do it.  SQLSTATE: 42703; line 1 pos 7;\n'Project", "Cannot do it."),
        (
            (
                "[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):\n  File x\n"
                "midge.client.errors.StreamNotFoundError: stream not found\n SQLSTATE: 38000"
            ),
            "stream not found",
        ),
        (
            (
                "[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_ERROR] Failed: "
                "midge.pipeline.errors.PublishError: column x: no\n SQLSTATE: 38000"
            ),
            "column x: no",
        ),
    ],
)
def test_sentence(text, sentence):
    assert sentence_of(RuntimeError(text)) == sentence


def test_own_errors_are_their_sentence():
    assert sentence_of(ServerError("cannot connect")) == "cannot connect"
    assert sentence_of(PipelineError("a\nb")) == "a"
