"""Small tables that claim to need much memory, and a program that measures what reading each of them takes.

Run as a program, it reads every table of `MEASURED` in a separate process with limited memory, so that a reader that
believes the claim is killed, and prints the outcome.
"""

import gzip
import json
import os
import resource
import signal
import struct
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import harness
from harness.errors import HarnessError
from harness.suite.oracle_engine import read_with_oracle
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

SYNC = bytes(range(16))


@contextmanager
def ending(seconds: int = 20) -> Iterator[None]:
    """Raise an error instead of hanging. Code that ends takes a hundredth of the time."""

    def fail(*_: object) -> None:
        raise AssertionError("it does not end")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def number(value: int) -> bytes:
    rest, encoded = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*encoded, rest))


def avro(schema: object, count: int, block: bytes, codec: str = "null") -> bytes:
    """Return a container with one block, whose content is given."""
    header = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    pairs = b"".join(number(len(k)) + k.encode() + number(len(v)) + v for k, v in header.items())
    return b"Obj\x01" + number(2) + pairs + b"\0" + SYNC + number(count) + number(len(block)) + block + SYNC


def record(*types: object) -> dict[str, object]:
    fields = [{"name": f"f{i}", "type": kind, "field-id": 9000 + i} for i, kind in enumerate(types)]
    return {"type": "record", "name": "r", "fields": fields}


def zstandard(megabytes: int) -> bytes:
    """Return zeros in blocks of four bytes that decompress to 128 KiB each.

    The frame does not contain the total size.
    """
    count = megabytes * 8
    blocks = b"".join(((131072 << 3) | 2 | (i == count - 1)).to_bytes(3, "little") + b"\0" for i in range(count))
    return b"\x28\xb5\x2f\xfd\x00\x58" + blocks


def snappy(declared: int) -> bytes:
    encoded = bytearray()
    while declared > 0x7F:
        encoded.append(declared & 0x7F | 0x80)
        declared >>= 7
    return bytes((*encoded, declared)) + bytes(1024)


def deflated(piece: bytes, times: int, *, wbits: int) -> bytes:
    packer = zlib.compressobj(1, wbits=wbits)
    return b"".join([*(packer.compress(piece) for _ in range(times)), packer.flush()])


def doubling(levels: int) -> list[object]:
    """Return a record that contains the next record twice, and so on: 2^levels nulls without any bytes."""
    type_: object = "null"
    for level in range(levels):
        # The definition comes first, and the name refers to it.
        again = f"n{level - 1}" if level else "null"
        fields = [{"name": "a", "type": type_}, {"name": "b", "type": again}]
        type_ = {"type": "record", "name": f"n{level}", "fields": fields}
    return [type_]


def runs(containers: int, bitmaps: int) -> bytes:
    """Return a 64-bit roaring bitmap of full containers: 65,536 positions for every six bytes."""
    head = struct.pack("<I", (containers - 1) << 16 | 12347) + b"\xff" * ((containers + 7) // 8)
    keys = np.stack([np.arange(containers), np.full(containers, 0xFFFF)], 1).astype("<u2").tobytes()
    start = len(head) + 8 * containers
    offsets = (start + 6 * np.arange(containers)).astype("<u4").tobytes()
    bitmap = head + keys + offsets + struct.pack("<HHH", 1, 0, 0xFFFF) * containers
    return struct.pack("<Q", bitmaps) + b"".join(struct.pack("<I", key) + bitmap for key in range(bitmaps))


def iceberg(folder: Path) -> Path:
    table = IcebergTable.create(folder / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    return folder / "t"


def with_metadata(folder: Path, data: bytes) -> Path:
    (folder / "t" / "metadata").mkdir(parents=True)
    (folder / "t" / "metadata" / "v1.metadata.json").write_bytes(data)
    return folder / "t" / "metadata" / "v1.metadata.json"


def with_list(folder: Path, data: bytes) -> Path:
    """Return a valid table with a replaced manifest list."""
    location = iceberg(folder)
    for path in (location / "metadata").glob("snap-*.avro"):
        path.write_bytes(data)
    return location


def with_vector(folder: Path, positions: bytes, *, cardinality: int = 1 << 32, rows: int = 1 << 62) -> Path:
    """Return a Delta table whose data file has a deletion vector and claims to have `rows` rows."""
    table = DeltaTable.create(folder / "t", {"id": "long"})
    file = table.write_data([{"id": 1}])
    table.append(file)
    table.delete(file, [0])
    commit = max((folder / "t" / "_delta_log").glob("*.json"))
    body = struct.pack("<i", 1681511377) + positions
    frame = b"\x01" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    (vectors,) = (folder / "t").glob("**/*.bin")
    vectors.write_bytes(frame)
    lines = []
    for line in commit.read_text().splitlines():
        action = json.loads(line)
        if "add" in action:
            action["add"]["deletionVector"] |= {"sizeInBytes": len(body), "cardinality": cardinality, "offset": 1}
            action["add"]["stats"] = json.dumps({"numRecords": rows})
        lines.append(json.dumps(action))
    commit.write_text("\n".join(lines))
    return folder / "t"


NULLS = {"type": "array", "items": "null"}

MEASURED: dict[str, Callable[[Path], Path]] = {
    "gzip of 300 MiB of blanks": lambda f: with_metadata(f, deflated(b" " * (1 << 20), 300, wbits=31)),
    "gzip of 10 million empty objects": lambda f: with_metadata(
        f, gzip.compress(b"[") + deflated(b"{}," * (1 << 18), 40, wbits=31)
    ),
    "100,000 brackets": lambda f: with_metadata(f, b"[" * 100_000),
    "5,000 digits": lambda f: with_metadata(f, b'{"format-version": ' + b"1" * 5_000 + b"}"),
    "zstandard of 6 GiB in a manifest list": lambda f: with_list(
        f, avro(record("long"), 1, zstandard(6 << 10), "zstandard")
    ),
    "snappy that declares 3.9 GiB": lambda f: with_list(f, avro(record("long"), 1, snappy(3_900 << 20), "snappy")),
    "arrays of 100,000 nulls, 60,000 times": lambda f: with_list(
        f, avro(record(NULLS), 1, number(100_000) * 60_000 + b"\0")
    ),
    "2^40 records in each other": lambda f: with_list(f, avro(record("long", *doubling(40)), 1, b"\2")),
    "16 million row groups in a footer": lambda f: with_row_groups(f, b"\x80\x80\x80\x08"),
    "4 billion deleted rows in 800 KB": lambda f: with_vector(f, runs(1 << 16, 1)),
}


def with_row_groups(folder: Path, count: bytes) -> Path:
    """Return a table whose only data file claims to have a number of row groups, given as a varint."""
    location = iceberg(folder)
    (file,) = location.glob("data/*.parquet")
    data = file.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[start:-8]
    place = footer.index(b"\x16\x02\x19\x1c") + 3  # one row, followed by the list of one struct
    footer = footer[:place] + b"\xfc" + count + footer[place + 1 :]
    file.write_bytes(data[:start] + footer + struct.pack("<I", len(footer)) + b"PAR1")
    return location


def read(location: Path) -> None:
    harness.open_table(str(location)).snapshot().to_arrow()


def judge(location: Path) -> None:
    read_with_oracle(str(location))


def main(folder: Path) -> None:
    """Print for each table and planner: its name, the error's class and message, peak MiB, and seconds."""
    for place, (name, make) in enumerate(MEASURED.items()):
        (folder / str(place)).mkdir()
        location = make(folder / str(place))
        for reader in (read, judge):
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                _in_child(name, reader, location)
            _, status = os.waitpid(child, 0)
            if status:
                print(json.dumps([name, reader.__name__, f"ended with {status}", "", 0, 0]))


def _in_child(name: str, reader: Callable[[Path], None], location: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (3_500 << 20, 3_500 << 20))
    started, before = time.monotonic(), _peak()
    try:
        reader(location)
        outcome, message = "rows", ""
    except HarnessError as error:
        outcome, message = type(error).__name__, str(error)
    except BaseException as error:
        outcome, message = type(error).__name__, traceback.format_exc()[-500:]
    print(json.dumps([name, reader.__name__, outcome, message, _peak() - before, round(time.monotonic() - started)]))
    sys.stdout.flush()
    os._exit(0)


def _peak() -> int:
    """Return the peak memory of the process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


if __name__ == "__main__":
    main(Path(sys.argv[1]))
