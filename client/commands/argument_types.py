"""Parse numbers and pairs on the command line; anything else is a one-line error."""

import argparse
import math


def positive_int(text: str) -> int:
    """Return a whole number of 1 or more.

    Raises:
        ArgumentTypeError: `text` is anything else.
    """
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return int(text)


def positive_number(text: str) -> float:
    """Return a finite number above 0.

    Raises:
        ArgumentTypeError: `text` is anything else.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return number


def key_and_value(text: str) -> tuple[str, str]:
    """Return the two sides of `KEY=VALUE`.

    Raises:
        ArgumentTypeError: `text` has no such form.
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got {text!r}")
    return key, value
