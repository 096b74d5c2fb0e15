"""Imports msgspec, asyncio and uvloop without modules that they name and a start does not use.

While they are imported, a `Late` stands in for each such module: it has the few names that they
ask for at once, and imports the module itself when another one is asked for. Everybody else gets
the module itself.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import contextmanager
from functools import partial
from types import FunctionType, GeneratorType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_CO_COROUTINE = 0x80  # the flag in the code of a coroutine function, as `inspect` calls it

_TLS_NAMES = {
    "CertificateError": "SSLCertVerificationError",
    "MemoryBIO": "MemoryBIO",
    "SSLContext": "_SSLContext",  # the base of the one in Python, for `isinstance`
    "SSLError": "SSLError",
    "SSLSyscallError": "SSLSyscallError",
    "SSLWantReadError": "SSLWantReadError",
    "SSLZeroReturnError": "SSLZeroReturnError",
    "SSL_ERROR_SYSCALL": "SSL_ERROR_SYSCALL",
    "SSL_ERROR_WANT_READ": "SSL_ERROR_WANT_READ",
    "SSL_ERROR_WANT_WRITE": "SSL_ERROR_WANT_WRITE",
}
"""What asyncio and uvloop take of `ssl` at once, and its names in the module in C."""


class Late(ModuleType):
    """Stands in for the module `name`, which is imported for any name that is not among `known`."""

    def __init__(self, name: str, **known: Any) -> None:
        super().__init__(name)
        self._known = tuple(known)
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)

    def forget_known(self) -> None:
        """Ask the module for all names from now on."""
        for name in self._known:
            del self.__dict__[name]


def import_msgspec() -> None:
    """Import msgspec without `typing_extensions`, of which `typing` has what it needs.

    `uuid` asks `platform` once for the system and nothing more, and `textwrap` is for the
    descriptions in JSON schemas.
    """
    system = Late("platform", system=lambda: os.uname().sysname)
    with _in_place_of(system, Late("textwrap"), without="typing_extensions"):
        import msgspec  # noqa: F401, PLC0415 - see above


def import_event_loop() -> None:
    """Import asyncio and uvloop without what TLS, tracebacks and subprocesses use, nor `inspect`.

    Beside msgspec's, these are 9 of the 83 ms that a start took.
    """
    import _ssl  # noqa: PLC0415 - for this alone

    tls = Late(
        "ssl",
        create_default_context=partial(_call, "ssl", "create_default_context"),
        **{name: getattr(_ssl, in_c) for name, in_c in _TLS_NAMES.items()},
    )
    inspect = Late("inspect", iscoroutinefunction=_is_coroutine_function, isgenerator=_is_generator)
    with _in_place_of(tls, inspect, Late("locale"), Late("textwrap"), Late("tokenize")):
        import asyncio  # noqa: F401, PLC0415 - see above

        import uvloop  # noqa: F401, PLC0415 - see above


@contextmanager
def _in_place_of(*stand_ins: Late, without: str = "") -> Iterator[None]:
    """Put `stand_ins` in place of modules that nobody has imported, and fail to import `without`.

    Importing None fails.
    """
    wanted: dict[str, Late | None] = {one.__name__: one for one in stand_ins}
    if without:
        wanted[without] = None
    missing = {name: one for name, one in wanted.items() if name not in sys.modules}
    sys.modules.update(missing)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name, one in missing.items():
            if sys.modules.get(name) is one:
                del sys.modules[name]
            if one is not None:
                one.forget_known()


def _call(module: str, name: str, *arguments: Any, **keywords: Any) -> Any:
    """Call the function `name` of `module`, which is imported for it."""
    return getattr(importlib.import_module(module), name)(*arguments, **keywords)


def _is_generator(value: object) -> bool:
    return isinstance(value, GeneratorType)


def _is_coroutine_function(function: Any) -> bool:
    """Tell what `inspect.iscoroutinefunction` does, which is asked unless the answer is plain."""
    plain = getattr(function, "__func__", function)
    if type(plain) is FunctionType and not plain.__dict__:
        return bool(plain.__code__.co_flags & _CO_COROUTINE)
    return bool(_call("inspect", "iscoroutinefunction", function))
