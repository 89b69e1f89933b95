"""Mutators of messages of the worker for an untrusted table: a line with a descriptor, then an Arrow stream or an
error.
"""

import json
import struct
from collections.abc import Callable
from random import Random

import drawn_values
import mutate_bytes
import mutate_json
import pyarrow as pa

_WARNED = b"harness.warnings"
_SIZE = struct.Struct("<Ii")
_CONTROLS = ("\x1b[2J", "\r", "\n", "\x00", "\u202e", "\x9b31m", "\u2028", "\udcff")


def first_line(data: bytes, rng: Random) -> bytes:
    """Change the descriptor in the first line, remove its end, or remove or repeat the line."""
    line, _, rest = data.partition(b"\n")
    names = (b"", b"0", b"1", b"2", b"7", b"63", b"-1", b"99999999999", b"9" * 40, "²".encode(), b"\x00", line + b"\n-")
    return rng.choice(names) + rng.choice((b"\n", b"\n", b"\r\n", b"", b"\n\n")) + rest


def bits(data: bytes, rng: Random) -> bytes:
    """Damage bytes after the first line."""
    line, _, rest = data.partition(b"\n")
    return line + b"\n" + mutate_bytes.damaged(rest, rng)


def numbers(data: bytes, rng: Random) -> bytes:
    """Set one to three numbers of 1 to 8 bytes to a limit."""
    line, _, rest = data.partition(b"\n")
    for _ in range(rng.choice((1, 1, 2, 3))):
        rest = drawn_values.numbered(rng, rest)
    return line + b"\n" + rest


def messages(data: bytes, rng: Random) -> bytes:
    """Remove, repeat, or move a message of the stream, change its size, or replace it with one of another stream."""
    line, _, rest = data.partition(b"\n")
    parts = _parts(rest)
    place = rng.randrange(len(parts))
    match rng.randrange(6):
        case 0:
            del parts[place]
        case 1:
            parts[place:place] = [parts[place]] * rng.choice((1, 1, 50))
        case 2:
            parts.insert(rng.randrange(len(parts)), parts.pop(place))
        case 3:
            mark, size = _SIZE.unpack_from(parts[place])
            size = max(-(2**31), min(2**31 - 1, drawn_values.integer(rng, size)))
            parts[place] = _SIZE.pack(rng.choice((mark, mark, 0)), size) + parts[place][_SIZE.size :]
        case 4:
            other = _parts(_written(_odd_table(rng)))
            parts[place] = rng.choice(other)
        case _:
            parts[place:place] = rng.choice((parts, _parts(_written(_odd_table(rng)))))
    return line + b"\n" + b"".join(parts)


def rewritten(data: bytes, rng: Random) -> bytes:
    """Replace the stream with a valid one of other rows, types, batches, compression, names, or warnings."""
    line, _, rest = data.partition(b"\n")
    table = pa.ipc.open_stream(rest).read_all()
    options = None
    match rng.randrange(6):
        case 0:
            table = _odd_table(rng).replace_schema_metadata(table.schema.metadata)
        case 1:
            options = pa.ipc.IpcWriteOptions(compression=rng.choice(("lz4", "zstd")))
        case 2:
            table = table.slice(rng.randrange(table.num_rows + 1), rng.choice((0, 1, 5)))
        case 3:
            table = pa.concat_tables([table] * rng.choice((2, 9, 200)))
        case 4:
            names = [drawn_values.text(rng, name).encode("utf-8", "replace").decode() for name in table.column_names]
            table = table.rename_columns(names)
        case _:
            warning_bytes = rng.choice(
                (_json(rng), b"[]" * 9, b"[" * 3000, b'["' + b"a" * (1 << 21) + b'"]', b"\xff", b"{}")
            )
            table = table.replace_schema_metadata({**(table.schema.metadata or {}), _WARNED: warning_bytes})
    return line + b"\n" + _written(table, options)


def error(data: bytes, rng: Random) -> bytes:
    """Change the error: other fields, another class, control characters in its texts, or too long."""
    line, _, rest = data.partition(b"\n")
    document = json.loads(rest)
    match rng.randrange(5):
        case 0:
            names = (
                "HarnessError",
                "HarnessWarning",
                "warn",
                "Exception",
                "SystemExit",
                "__class__",
                "eval",
                "",
                "a\0",
            )
            document["kind"] = rng.choice(names)
        case 1:
            name = rng.choice(sorted(document))
            place = rng.randrange(9)
            text = str(document[name])
            document[name] = text[:place] + rng.choice(_CONTROLS) + text[place:]
        case 2:
            document[rng.choice(sorted(document))] = "a" * rng.choice((1 << 12, 1 << 17, 1 << 21))
        case _:
            return line + b"\n" + mutate_json.document(rest, rng)
    return line + b"\n" + json.dumps(document).encode()


def end(data: bytes, rng: Random) -> bytes:
    """Change the exit code or signal, and the last output."""
    code = rng.choice((0, 1, 2, 3, 4, 10, 11, 12, 13, 255, -6, -9, -11, -24, -25, -31, -99))
    output = rng.choice(_CONTROLS).join(drawn_values.text(rng, "a word") for _ in range(rng.choice((1, 3, 200))))
    return json.dumps({"code": code, "said": output}).encode()


def _parts(stream: bytes) -> list[bytes]:
    """Return each message of a valid stream with its size and body. The end mark is a message too."""
    reader = pa.BufferReader(stream)
    parts = []
    start = 0
    while start < len(stream):
        _, size = _SIZE.unpack_from(stream, start)
        if size == 0:
            parts.append(stream[start:])
            break
        message = pa.ipc.read_message(reader)
        parts.append(stream[start : reader.tell()])
        assert message is not None
        start = reader.tell()
    return parts


def _odd_table(rng: Random) -> pa.Table:
    """Return columns whose decoding may need much more memory than their bytes."""
    rows = rng.choice((0, 1, 3, 1000))
    makers: tuple[Callable[[], pa.Array], ...] = (
        lambda: pa.nulls(rows),
        lambda: pa.nulls(rows, pa.struct([("a", pa.int8()), ("b", pa.list_(pa.null()))])),
        lambda: pa.nulls(rows, pa.list_(pa.null(), 1 << rng.choice((1, 8, 16)))),
        lambda: pa.array(["a" * 300] * rows).dictionary_encode(),
        lambda: pa.array([b"\xff\0"] * rows, pa.binary_view()),
        lambda: pa.array(["\x1b[31m"] * rows),
        lambda: pa.array([2**62] * rows, pa.timestamp("ns", "No/Where")),
        lambda: pa.array([[("k", 1), ("k", 2)]] * rows, pa.map_(pa.string(), pa.int64())),
        lambda: pa.RunEndEncodedArray.from_arrays([max(rows, 1)], [7]).slice(0, rows),
    )
    columns = [rng.choice(makers)() for _ in range(rng.choice((0, 1, 2, 40)))]
    return pa.table(columns, [rng.choice(("a", f"c{i}", "", "\n")) for i in range(len(columns))])


def _written(table: pa.Table, options: pa.ipc.IpcWriteOptions | None = None) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


def _json(rng: Random) -> bytes:
    texts = [rng.choice(("a", *_CONTROLS, None, 7, {"a": []})) for _ in range(rng.choice((1, 3, 5000)))]
    return json.dumps(texts).encode()
