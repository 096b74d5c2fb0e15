"""Credentials files: taken apart, and seeds that are none."""

from __future__ import annotations

import pytest

from midge.protocol.credentials import decode_user_seed, split_credentials
from midge.protocol.nkeys import encode_nkey

USER = encode_nkey(bytes([0x95, 0]) + bytes(32))  # the prefixes of a seed, and of a user
FILE = """-----BEGIN NATS USER JWT-----
eyJ0.x.y
------END NATS USER JWT------
SUBJECT TO CHANGE
-----BEGIN USER NKEY SEED-----
  {seed}
------END USER NKEY SEED------
"""


def test_a_file_is_taken_apart() -> None:
    assert split_credentials(FILE.format(seed="SUAX")) == ("eyJ0.x.y", "SUAX")
    assert split_credentials("SUAX") == ("", "SUAX")
    assert split_credentials("") == ("", "")


def test_a_seed_is_read() -> None:
    assert USER.startswith("SU")
    assert decode_user_seed(USER) == bytes(32)


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        ("SU!", "is not base32"),
        (USER[:-1] + ("A" if USER[-1] != "A" else "B"), "typing error"),
        (encode_nkey(b"\0" + bytes(32)), "is not the seed of a user"),
    ],
)
def test_another_seed_is_refused(seed: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        decode_user_seed(seed)
    assert seed not in str(caught.value)
