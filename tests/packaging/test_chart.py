"""The Helm chart: its values and their schema, and what it renders, next to `kubernetes.yaml`.

Helm is not installed with the tests. The templates use a few of its actions, which are done here:
`if not`, `if`, `else`, `end`, values, and the functions of `FUNCTIONS`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import textwrap
from typing import Any

import pytest
import yaml

import midge
from tests.conftest import ROOT

CHART = ROOT / "deploy" / "chart"
TEMPLATE = (CHART / "templates" / "midge.yaml").read_text()
DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
ABOUT: dict[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text())

FUNCTIONS = {
    "toJson": lambda value, _: json.dumps(value),
    "quote": lambda value, _: json.dumps(value),
    "indent": lambda value, spaces: textwrap.indent(value, " " * int(spaces)),
    "default": lambda value, other: value or other,
}
TYPES = {"object": dict, "array": list, "string": str, "integer": int}


def evaluated(text: str, scope: dict[str, Any]) -> Any:
    """Return the value of `.Values.x | function argument`."""
    path, *functions = (part.split() for part in text.split("|"))
    value = found(path[0], scope)
    for name, *arguments in functions:
        argument = arguments[0] if arguments else ""
        other = found(argument, scope) if argument.startswith(".") else argument
        value = FUNCTIONS[name](value, other)
    return value


def found(path: str, scope: dict[str, Any]) -> Any:
    value: Any = scope
    for name in path.split(".")[1:]:
        value = value[name]
    return value


def render(values: dict[str, Any]) -> list[Any]:
    """Return the objects that the chart makes of `values`, as the release `midge`."""
    chart = {"AppVersion": ABOUT["appVersion"]}
    scope = {"Values": DEFAULTS | values, "Release": {"Name": "midge"}, "Chart": chart}
    lines, shown = [], [True]
    for line in TEMPLATE.splitlines():
        action = re.fullmatch(r" *\{\{- (if not|if|else|end) ?(\S*) \}\}", line)
        if action is None:
            if all(shown):
                fill = lambda one: str(evaluated(one[1], scope))  # noqa: E731 - of this line
                lines.append(re.sub(r"\{\{ (.*?) \}\}", fill, line))
        elif action[1].startswith("if"):
            shown.append(bool(found(action[2], scope)) != (action[1] == "if not"))
        elif action[1] == "else":
            shown[-1] = not shown[-1]
        else:
            shown.pop()
    assert shown == [True]
    return [*yaml.safe_load_all("\n".join(lines))]


def test_defaults_give_the_manifest() -> None:
    *others, workload = render({})
    *expected, manifest = yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text())
    assert others[1]["spec"].pop("type") == "ClusterIP"
    assert others == expected
    pod = workload["spec"]["template"]["spec"]
    assert [pod.pop(name) for name in ("imagePullSecrets", "nodeSelector", "tolerations")] == [
        [],
        {},
        [],
    ]
    (container,) = pod["containers"]
    assert container.pop("imagePullPolicy") == "IfNotPresent"
    assert container["image"] == f"midge:{midge.__version__}"
    container["image"] = "midge"
    assert workload == manifest


def test_a_secret_takes_the_place_of_the_configuration() -> None:
    storage = {"size": "1Gi", "className": "fast"}
    service, workload = render({"existingSecret": "mine", "storage": storage})
    assert service["kind"] == "Service"
    config = workload["spec"]["template"]["spec"]["volumes"][0]
    assert config == {"name": "config", "secret": {"secretName": "mine"}}
    claim = workload["spec"]["volumeClaimTemplates"][0]["spec"]
    assert claim["storageClassName"] == "fast"
    assert claim["resources"] == {"requests": {"storage": "1Gi"}}


def test_chart_has_the_version_of_midge() -> None:
    assert ABOUT["appVersion"] == ABOUT["version"] == midge.__version__


@pytest.mark.parametrize("table", ["", "image", "service", "storage"])
def test_each_value_has_a_schema_that_its_default_fits(table: str) -> None:
    schema = SCHEMA["properties"][table] if table else SCHEMA
    values = DEFAULTS[table] if table else DEFAULTS
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) - {"global"} == set(values)
    for name, value in values.items():
        rule = schema["properties"][name]
        assert value in rule["enum"] if "enum" in rule else isinstance(value, TYPES[rule["type"]])
        assert re.search(rule.get("pattern", ""), str(value))


def test_checkers_find_nothing() -> None:
    values = [CHART / "values.schema.json", CHART / "values.yaml"]
    for command in (["check-jsonschema", "--schemafile", *values], ["helm", "lint", CHART]):
        if shutil.which(str(command[0])):
            subprocess.run(command, check=True)
