"""A run as a report: text, JSON, JUnit XML, GitHub annotations, HTML or Markdown. Pure functions of a `Run`."""

from __future__ import annotations

from harness.conformance.reports.github import to_github
from harness.conformance.reports.html import to_html
from harness.conformance.reports.json_report import to_json
from harness.conformance.reports.junit import to_junit
from harness.conformance.reports.markdown import to_markdown
from harness.conformance.reports.text import to_text

__all__ = ["to_github", "to_html", "to_json", "to_junit", "to_markdown", "to_text"]
