"""A comparison as a report: text, JSON, JUnit XML or HTML. Pure functions of a `ComparisonResult`."""

from __future__ import annotations

from harness.differ.reports.html import to_html
from harness.differ.reports.json_report import to_json
from harness.differ.reports.junit import to_junit
from harness.differ.reports.text import to_text

__all__ = ["to_html", "to_json", "to_junit", "to_text"]
