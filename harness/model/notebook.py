"""What notebooks show of tables: HTML in which nothing that a table says is markup."""

from __future__ import annotations

from collections.abc import Mapping

from harness.model.schema import Schema
from harness.printable import html_lines, html_text

_MOST_COLUMNS = 100


def described(title: str, facts: Mapping[str, object], schema: Schema) -> str:
    """A heading, what is known as a list, and the columns with their types; facts that are None are left out."""
    known = "".join(
        f"<li>{html_text(name)}: <code>{html_text(value)}</code></li>"
        for name, value in facts.items()
        if value is not None
    )
    rows = "".join(
        f"<tr><td>{html_text(f.name)}</td><td><code>{html_text(f.type)}</code></td>"
        f"<td>{'required' if f.required else ''}</td><td>{html_text(f.doc or '')}</td></tr>"
        for f in schema.fields[:_MOST_COLUMNS]
    )
    left = len(schema.fields) - _MOST_COLUMNS
    more = f"<p>{left} more columns</p>" if left > 0 else ""
    head = "<tr><th>column</th><th>type</th><th></th><th></th></tr>"
    return f"<div><p><b>{html_text(title)}</b></p><ul>{known}</ul><table>{head}{rows}</table>{more}</div>"


def preformatted(text: str) -> str:
    """A report in plain text, line by line."""
    return f"<pre>{html_lines(text)}</pre>"
