"""Rows as lines of CSV and JSON, which DuckDB puts together: what it hands over is the text to write, as bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.cli.results import ByteStream, write_texts
from harness.cli.rows import Rows
from harness.cli.sql_values import cell, csv_quoted, json_object, json_value
from harness.errors import RequestError
from harness.printable import json_lines, json_text

FORMAT = 1
"""Of the JSON document; it changes when a key changes its meaning or goes."""


def write_csv(rows: Rows, stream: ByteStream) -> None:
    """A header and a line per row."""
    types = [type_ for _, type_ in rows.columns]
    cells = rows.selected(*(cell(f"#{place}", type_) for place, type_ in enumerate(types, 1)))
    quoted = [csv_quoted(f"#{place}", type_) for place, type_ in enumerate(types, 1)]
    separated = ", ',', ".join(quoted)
    head = ",".join(csv_quotes(name) for name, _ in rows.columns) + "\n"
    for text, _ in _texts(cells.selected(f"concat({separated}, chr(10))")):
        _write_csv(head, text, stream)
        head = ""
    _write_csv(head, memoryview(b""), stream)


def write_json(rows: Rows, stream: ByteStream) -> None:
    """One JSON document, a row per line."""
    columns = [{"name": field.name, "type": str(field.type)} for field in rows.schema()]
    values = [json_value(f"#{place}", type_, spaced=True) for place, (_, type_) in enumerate(rows.columns, 1)]
    separated = ", ', ', ".join(values)
    before, count = f'{{"format": {FORMAT}, "kind": "rows", "columns": {json_text(columns)}, "rows": [', 0
    for text, number in _texts(rows.selected(f"concat(',', chr(10), '[', {separated}, ']')")):
        if count == 0:
            write_texts([before], stream)
        _write_json(text[1:] if count == 0 else text, stream)  # without the first comma
        count += number
    head, end = (before, "") if count == 0 else ("", "\n")
    write_texts([f'{head}{end}], "row_count": {count}}}\n'], stream)


def write_jsonl(rows: Rows, stream: ByteStream) -> None:
    """One JSON object per row.

    Raises:
        RequestError: two columns have the same name.
    """
    names = [name for name, _ in rows.columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RequestError(
            f"Cannot write rows as jsonl: more than one column is named {twice[0]!r}; rename it with AS", field=twice[0]
        )
    values = [json_value(f"#{place}", type_, spaced=True) for place, (_, type_) in enumerate(rows.columns, 1)]
    for text, _ in _texts(rows.selected(f"concat({json_object(names, values, spaced=True)}, chr(10))")):
        _write_json(text, stream)


def csv_quotes(text: str) -> str:
    """A text that is no null, quoted as a cell of CSV where it must be."""
    if text == "" or any(sign in text for sign in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def _texts(rows: Rows) -> Iterator[tuple[memoryview, int]]:
    """The texts of the only column one after the other, in UTF-8, batch by batch; and of how many rows each is."""
    for batch in rows.batches():
        if batch.num_rows:
            texts = batch.column(0)
            _, places, data = texts.buffers()
            start, end = np.frombuffer(places, np.int32)[[texts.offset, texts.offset + len(texts)]]
            yield memoryview(data)[start:end], batch.num_rows


def _write_csv(head: str, text: memoryview, stream: ByteStream) -> None:
    """Values as they are; a terminal gets what is unprintable escaped."""
    if stream.isatty():
        write_texts([head, str(text, "utf-8")], stream)
    else:
        write_texts([head], stream)
        stream.write(text)


def _write_json(text: memoryview, stream: ByteStream) -> None:
    r"""Nothing unprintable: of that DuckDB escapes control characters, but not DEL and what is beyond ASCII."""
    plain = bytes(text)
    is_printable = plain.isascii() and b"\x7f" not in plain
    stream.write(plain if is_printable else json_lines(plain.decode()).encode())
