"""Differences put there on purpose: each is found, and each report shows it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from html.parser import HTMLParser
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import harness
from harness.differ.reports.documents import to_json, to_junit
from harness.differ.reports.html import to_html
from harness.differ.reports.text import to_text

NOON = datetime(2024, 1, 31, 12)


@dataclass(frozen=True)
class Seed:
    """A column whose left and right values differ in one place.

    shown: what every report must print, the left value and the right one.
    """

    left: pa.Array
    right: pa.Array
    only_left: int
    only_right: int
    shown: tuple[str, ...]
    type_differs: bool = field(default=False)


def floats(*values) -> pa.Array:
    return pa.array(values, pa.float64())


def instants(shift: timedelta) -> pa.Array:
    return pa.array([NOON, NOON + shift], pa.timestamp("us", "UTC"))


SEEDS = {
    "one row changed": Seed(pa.array(["a", "b"]), pa.array(["a", "c"]), 1, 1, ("'b'", "'c'")),
    "one type changed": Seed(
        pa.array([1, 2], pa.int64()), pa.array([1, 2], pa.int32()), 0, 0, ("int64", "int32"), type_differs=True
    ),
    "a null for an empty string": Seed(pa.array(["a", ""]), pa.array(["a", None]), 1, 1, ("''", "NULL")),
    "NaN for null": Seed(floats(1.5, None), floats(1.5, float("nan")), 1, 1, ("NULL", "NaN (0x7ff8000000000000)")),
    "-0.0 for 0.0": Seed(floats(1.5, 0.0), floats(1.5, -0.0), 1, 1, ("0.0", "-0.0 (0x8000000000000000)")),
    "a shifted time zone": Seed(
        instants(timedelta(0)),
        instants(timedelta(hours=1)),
        1,
        1,
        ("2024-01-31 12:00:00.000000Z", "2024-01-31 13:00:00.000000Z"),
    ),
}


def compared(seed: Seed, **options):
    number = pa.array(range(len(seed.left)))
    return harness.compare(
        pa.table({"id": number, "v": seed.left}), pa.table({"id": number, "v": seed.right}), **options
    )


class Words(HTMLParser):
    """The text of a page, but for its style and script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self._skip = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self._skip = tag in ("style", "script")

    def handle_endtag(self, tag):
        self._skip = False

    def handle_data(self, data):
        if not self._skip:
            self.text.append(data)


def in_html(comparison) -> list[str]:
    return Words(to_html(comparison)).text


def in_text(comparison) -> list[str]:
    return re.split(r"\n *|\s{2,}| → |; ", to_text(comparison))


def in_json(comparison) -> list[str]:
    document = json.loads(to_json(comparison))
    rows = [value for row in document["rows"] for side in ("left", "right") for value in row[side] or ()]
    return rows + [difference[side] for difference in document["schema"] for side in ("left", "right")]


def in_junit(comparison) -> list[str]:
    failures = ElementTree.fromstring(to_junit(comparison)).iter("failure")
    return [cell for failure in failures for cell in re.split(r"\n *|\s{2,}| → |; ", failure.text)]


REPORTS = {"text": in_text, "json": in_json, "junit": in_junit, "html": in_html}


@pytest.mark.parametrize("keys", [(), ("id",)], ids=["unkeyed", "keyed"])
@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("name", SEEDS)
def test_each_report_shows_the_seed(name, report, keys):
    seed = SEEDS[name]
    comparison = compared(seed, keys=keys)
    assert not comparison.equal
    if keys:
        assert (comparison.changed, comparison.only_left, comparison.only_right) == (seed.only_left, 0, 0)
    else:
        assert (comparison.only_left, comparison.only_right) == (seed.only_left, seed.only_right)
    assert any(difference.counts for difference in comparison.schema) is seed.type_differs
    assert set(seed.shown) <= set(REPORTS[report](comparison))


@pytest.mark.parametrize("report", REPORTS)
def test_a_removed_duplicate_is_shown(report):
    comparison = harness.compare(pa.table({"v": ["a", "b", "b"]}), pa.table({"v": ["a", "b"]}))
    assert (comparison.only_left, comparison.only_right) == (1, 0)
    assert "'b'" in REPORTS[report](comparison)
    assert "'a'" not in REPORTS[report](comparison)


@pytest.mark.parametrize("name", SEEDS)
def test_without_the_seed_there_is_nothing(name):
    seed = SEEDS[name]
    same = Seed(seed.left, seed.left, 0, 0, ())
    assert compared(same).equal
    assert to_text(compared(same)).startswith("equal: no difference in 2 rows\n")


def test_a_comparison_makes_its_own_reports():
    comparison = compared(SEEDS["one row changed"])
    reports = (comparison.to_text(), comparison.to_json(), comparison.to_junit(), comparison.to_html())
    assert reports == (to_text(comparison), to_json(comparison), to_junit(comparison), to_html(comparison))
