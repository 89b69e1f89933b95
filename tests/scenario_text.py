"""The text of scenarios, for `harness.suite.scenarios.loading.parse`."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import yaml

from harness.suite.scenarios import strict_yaml
from harness.suite.scenarios.model import Expectation, Scenario


class _Dumper(yaml.SafeDumper):
    """A YAML writer that quotes each text that the loader of scenarios would otherwise interpret."""

    yaml_implicit_resolvers = strict_yaml._Loader.yaml_implicit_resolvers

    def ignore_aliases(self, data: Any) -> bool:
        return True


def write(value: Any) -> str:
    """Return a document as text. Lists and mappings of scalars are on one line, all others are blocks."""
    text: str = yaml.dump(value, Dumper=_Dumper, default_flow_style=None, sort_keys=False, width=110)
    return text


def dump(scenario: Scenario) -> str:
    """Return the text of a scenario."""
    return write(
        {
            "title": scenario.title,
            "format": scenario.format,
            "clauses": list(scenario.clauses),
            "features": list(scenario.features),
            **({"findings": list(scenario.findings)} if scenario.findings else {}),
            "table": scenario.table,
            "history": list(scenario.history),
            "expect": [_dumped(e) for e in scenario.expectations],
        }
    )


def _dumped(expectation: Expectation) -> dict[str, Any]:
    given = {key.name: getattr(expectation, key.name) for key in fields(expectation)}
    at, error = given["at"], given["error"]
    given["at"] = None if at.kind == "current" else {at.kind: at.value}
    if error is not None:
        given |= {"error": error.kind, "match": error.match, "cause": error.cause}
    return {key: _plain(value) for key, value in given.items() if value is not None and value != {}}


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
