"""Templates of scoped signing keys: what cannot be filled in closes, never opens."""

from __future__ import annotations

import pytest

from midge.server.auth import templates
from midge.server.auth.templates import TemplateError, TemplateValues, fill_in_allowed

VALUES = TemplateValues(
    name="ann",
    subject="USUBJECT",
    account_name="acme",
    account_subject="AACCOUNT",
    tags=["dept:a", "dept:b", "bad:x y", "star:*", "rest:>", "empty:", "other"],
    account_tags=["region:eu"],
)


def allowed(*subjects: str) -> tuple[str, ...]:
    return fill_in_allowed(subjects, (), VALUES)[0]


def test_every_operation_is_filled_in() -> None:
    assert allowed("u.{{name()}}.{{ subject() }}") == ("u.ann.USUBJECT",)
    assert allowed("{{account-name()}}.{{account-subject()}}") == ("acme.AACCOUNT",)
    assert allowed("{{ACCOUNT-TAG(Region)}}") == ("eu",)
    assert allowed("plain.>") == ("plain.>",)


def test_each_tag_value_gives_a_subject() -> None:
    assert allowed("d.{{tag(dept)}}.{{tag(dept)}}") == ("d.a.a", "d.a.b", "d.b.a", "d.b.b")


def test_an_allowance_that_cannot_be_filled_in_disappears() -> None:
    assert fill_in_allowed(["a", "{{tag(none)}}"], ["b"], VALUES) == (("a",), ("b",))


def test_allowances_of_which_none_remains_deny_everything() -> None:
    assert fill_in_allowed(["{{tag(none)}}"], ["b"], VALUES) == ((), ("b", ">"))


@pytest.mark.parametrize("tag", ["bad", "star", "rest", "empty"])
def test_values_that_would_widen_a_subject_do_not_fit(tag: str) -> None:
    assert fill_in_allowed([f"x.{{{{tag({tag})}}}}.y"], (), VALUES) == ((), (">",))


@pytest.mark.parametrize("subject", ["{{tag(none)}}", "{{tag(none)}}.y", "x.{{tag(bad)}}.y"])
def test_a_denial_that_cannot_be_filled_in_refuses(subject: str) -> None:
    with pytest.raises(TemplateError, match="cannot be filled in"):
        fill_in_allowed((), ["first", subject], VALUES)


def test_unknown_operations_refuse() -> None:
    with pytest.raises(TemplateError, match="unknown template operation"):
        allowed("{{password()}}")


def test_the_number_of_subjects_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "EXPANSIONS_MAX", 7)
    assert len(allowed("{{tag(dept)}}.{{tag(dept)}}")) == 4
    with pytest.raises(TemplateError, match="more than 7 subjects"):
        allowed("{{tag(dept)}}.{{tag(dept)}}", "{{tag(dept)}}.{{tag(dept)}}")
