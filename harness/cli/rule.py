"""`harness rule`: the rules of the formats that errors and warnings cite, and the rules of `harness check`."""

from __future__ import annotations

import importlib.metadata
import re
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urljoin

from harness.cli.document import DocumentOutput
from harness.cli.parameters import Argument
from harness.rules import Rule, find_rule

if TYPE_CHECKING:
    from harness.check.rules import CheckRule

_ID_OF_CHECK = re.compile(r"(ice|del)(-\S*|\s*\d+)", re.IGNORECASE)


def address(name: str) -> str | None:
    """Return a rule's URL in the documentation, or None if the package metadata has none, as before a release."""
    try:
        urls = importlib.metadata.metadata("lakeharness").get_all("Project-URL") or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    documentation = dict(url.split(", ", 1) for url in urls).get("Documentation")
    return documentation and urljoin(documentation, f"rules/{name.partition(' ')[0]}.md#{name.replace(' ', '-')}")


def rule(
    words: Annotated[
        list[str],
        Argument(
            metavar="RULE",
            help="The name of a format rule (delta L38, iceberg 4.7), with or without quotes, or the id of a "
            "harness check rule (ICE-201).",
        ),
    ],
    *,
    out: DocumentOutput,
) -> None:
    """Show the rule that an error, warning, or finding cites.

    Examples:
        harness rule delta L38
        harness rule ICE-201

    Exit code: 2 if there is no such rule. The error names the nearest rules.
    """
    name = " ".join(words)
    if _ID_OF_CHECK.fullmatch(name.strip(" []")):
        from harness.check.running import find_rule as find_check_rule

        check = find_check_rule(name.strip(" []"))
        cited = [find_rule(each) for each in check.breaks]
        content = {**_described_check(check), "breaks": list(map(_described, cited))}
        out.show("check_rule", content, lambda: [_check_text(check, cited)])
    else:
        rule_ = find_rule(name)
        # as on its page in the documentation, without markup
        out.show("rule", _described(rule_), lambda: [f"{_head(rule_)}\n\n{rule_.text}\n"])


def _head(rule: Rule) -> str:
    place = address(rule.name)
    return "\n".join((f"{rule.name}: {rule.title}", rule.source, *rule.links, *([place] if place else ())))


def _described(rule: Rule) -> dict[str, object]:
    return {
        "rule": rule.name,
        "title": rule.title,
        "source": rule.source,
        "links": list(rule.links),
        "text": "\n".join(" ".join(paragraph.split()) for paragraph in rule.text.split("\n\n")),
        "page": rule.page,
        "address": address(rule.name),
    }


def _described_check(rule: CheckRule) -> dict[str, object]:
    return {
        "rule": rule.id,
        "title": rule.title,
        "severity": rule.severity.value,
        "level": rule.level.value,
        "reads": rule.reads.value,
        "hurts": rule.hurts,
        "mends": rule.mends,
    }


def _check_text(rule: CheckRule, cited: list[Rule]) -> str:
    described = _described_check(rule)
    facts = {name: described[name] for name in ("severity", "level", "reads")}
    facts |= {"affects": rule.hurts, "fix": rule.mends}
    lines = [f"{rule.id}: {rule.title}", *(f"{name + ':':10}{text}" for name, text in facts.items())]
    return "\n".join([*lines, *(f"\n{_head(each)}" for each in cited)]) + "\n"
