"""One test item for many values: cheaper than an item each, where no fixture is made per value."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

Test = Callable[..., Any]


def each(name: str, values: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for each of `values`; a failure notes the value. It stands below parametrize.

    The values are given by keyword as `name`, or as several names with commas between them.
    """
    names = [one.strip() for one in name.split(",")]
    cases = [value if len(names) > 1 else (value,) for value in values]
    assert cases, f"no values of {name}"

    def decorate(test: Test) -> Test:
        def noted(case: tuple[Any, ...]) -> str:
            return ", ".join(
                f"{one}={value!r:.100}" for one, value in zip(names, case, strict=True)
            )

        def run(**fixtures: Any) -> None:
            for case in cases:
                try:
                    test(**fixtures, **dict(zip(names, case, strict=True)))
                except BaseException as error:
                    error.add_note(f"for {noted(case)}")
                    raise

        async def run_async(**fixtures: Any) -> None:
            for case in cases:
                try:
                    await test(**fixtures, **dict(zip(names, case, strict=True)))
                except BaseException as error:
                    error.add_note(f"for {noted(case)}")
                    raise

        made = functools.wraps(test)(run_async if inspect.iscoroutinefunction(test) else run)
        signature = inspect.signature(test)
        left = [one for one in signature.parameters.values() if one.name not in names]
        made.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return made

    return decorate
