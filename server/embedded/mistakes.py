"""Name the argument that was probably meant: Python does so from 3.13 on."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from midge.server.config.type_check import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

F = TypeVar("F", bound="Callable[..., Any]")


def check_names(function: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise TypeError, with the nearest known name, if an argument has an unknown name."""
    __tracebackhide__ = True
    names = list(known)
    for name in given:
        if name not in names:
            hint = nearest(name, names)
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def explained(function: F) -> F:
    """Return `function` with the check of `check_names` before each call."""
    kinds = inspect.signature(function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in kinds):
        return function
    known = [one.name for one in kinds if one.name != "self"]

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        __tracebackhide__ = True
        check_names(function.__name__, keywords, known)
        return function(*arguments, **keywords)

    return call  # type: ignore[return-value]


def explain_arguments(cls: type, returns: str) -> None:
    """Make the methods of a class that return `returns` name the argument that was meant."""
    for name, method in list(vars(cls).items()):
        if inspect.isfunction(method) and method.__annotations__.get("return") == returns:
            setattr(cls, name, explained(method))
