"""Entries on disk: private, whole or not there, no more than is allowed, and their bytes."""

import os
import random
import stat
from pathlib import Path

import pyarrow as pa
import pytest

from harness.errors import RequestError
from harness.storage.decoded import Key, Memory
from harness.storage.decoded_folder import Folder, StrangeEntryError, decode, encode

NAMES = [f"{n:040x}" for n in range(8)]


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "harness-1").iterdir())


def test_what_is_put_is_there_for_another_process_and_gone_once_it_is_cleared(tmp_path):
    first, second = Folder(str(tmp_path)), Folder(str(tmp_path))
    first.put(NAMES[0], b"entry")
    assert (second.get(NAMES[0]), second.get(NAMES[1])) == (b"entry", None)
    usage = second.usage()
    assert (usage.path, usage.entries, usage.size) == (str(tmp_path / "harness-1"), 1, 5)
    (tmp_path / "harness-1" / "note.txt").write_text("not ours")
    (tmp_path / "harness-1" / f"{NAMES[2]}.{'0' * 16}").write_text("half of an entry")
    assert first.clear() == usage
    assert (files(tmp_path), first.get(NAMES[0])) == (["note.txt"], None)


@pytest.mark.skipif(os.name == "nt", reason="rights are others on Windows")
def test_nobody_else_may_look_at_it(tmp_path):
    (tmp_path / "shared").mkdir(mode=0o755)
    Folder(str(tmp_path / "shared")).put(NAMES[0], b"entry")
    place = tmp_path / "shared" / "harness-1"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (place, place / NAMES[0])] == [0o700, 0o600]


@pytest.mark.skipif(os.name == "nt", reason="rights are others on Windows")
@pytest.mark.parametrize("spoil", ["open", "file", "link", "foreign"])
def test_a_directory_that_is_not_private_is_refused(tmp_path, spoil, monkeypatch):
    place = tmp_path / "harness-1"
    match spoil:
        case "open":
            place.mkdir()
            place.chmod(0o770)
        case "file":
            place.write_text("")
        case "link":
            (tmp_path / "elsewhere").mkdir(mode=0o700)
            place.symlink_to(tmp_path / "elsewhere")
        case "foreign":
            place.mkdir(mode=0o700)
            monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    with pytest.raises(RequestError, match="Cannot keep a cache there"):
        Folder(str(tmp_path))


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_an_entry_that_is_a_link_or_a_pipe_is_not_read(tmp_path):
    folder = Folder(str(tmp_path))
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "harness-1" / NAMES[0]).symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "harness-1" / NAMES[1])
    assert [folder.get(name) for name in NAMES[:2]] == [None, None]


def test_what_was_not_used_for_longest_is_removed_first(tmp_path):
    folder = Folder(str(tmp_path), most=1000)
    for age, name in enumerate(NAMES[:4]):
        folder.put(name, bytes(200))
        os.utime(tmp_path / "harness-1" / name, (1000 + age, 1000 + age))
    assert folder.get(NAMES[0]) is not None
    folder.put(NAMES[4], bytes(200))
    folder.put(NAMES[5], bytes(200))
    # 1200 bytes are there, 900 may stay; the first was used just now.
    assert files(tmp_path) == [NAMES[0], *NAMES[3:6]]
    folder.put(NAMES[6], bytes(2000))
    assert folder.get(NAMES[6]) is None


def test_a_full_disk_costs_the_entry_and_nothing_else(tmp_path, monkeypatch):
    folder = Folder(str(tmp_path))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    folder.put(NAMES[0], b"entry")
    assert (files(tmp_path), folder.get(NAMES[0])) == ([], None)


def test_memory_forgets_what_was_not_used_for_longest():
    class Sized:
        size = 40

    memory = Memory(100)
    for name in NAMES[:2]:
        memory.put(name, Sized())
    memory.get(NAMES[0], Sized)
    memory.put(NAMES[2], Sized())
    assert [memory.get(name, Sized) is not None for name in NAMES[:3]] == [True, False, True]
    memory.drop(NAMES[0])
    assert memory.size == 40


KEY = Key("manifest", "/t/m.avro", 7, "inode 3")
TABLE = pa.table({"id": pa.array([1, None, 3], pa.int64()), "path": pa.array(["a", "b", ""], pa.string())})
DATA = encode(KEY, TABLE, {b"header": b"\x00\xff"})


def test_an_entry_gives_back_its_columns_and_what_stands_beside():
    entry = decode(DATA, KEY)
    assert entry.columns(TABLE.schema).equals(TABLE)
    assert entry.columns(pa.schema([TABLE.schema.field("path")])).to_pydict() == {"path": ["a", "b", ""]}
    assert (entry.about, entry.size) == ({b"header": b"\x00\xff"}, len(DATA))


@pytest.mark.parametrize(
    "other",
    [
        Key("manifest bounds 1", "/t/m.avro", 7, "inode 3"),
        Key("manifest", "/t/n.avro", 7, "inode 3"),
        Key("manifest", "/t/m.avro", 8, "inode 3"),
        Key("manifest", "/t/m.avro", 7, "inode 4"),
    ],
    ids=["kind", "path", "size", "token"],
)
def test_an_entry_of_another_key_is_none_even_under_its_name(other):
    assert other.name != KEY.name
    with pytest.raises(StrangeEntryError):
        decode(DATA, other)


def test_a_key_does_not_show_the_path_which_may_hold_a_secret():
    assert b"/t/m.avro" not in KEY.text


def test_an_entry_with_one_byte_changed_or_cut_off_is_none():
    chance = random.Random(7)
    for place in [*range(60), *(chance.randrange(len(DATA)) for _ in range(60))]:
        damaged = bytearray(DATA)
        damaged[place] ^= 1 << chance.randrange(8)
        with pytest.raises(StrangeEntryError):
            decode(bytes(damaged), KEY)
        with pytest.raises(StrangeEntryError):
            decode(DATA[:place], KEY)


@pytest.mark.parametrize(
    "schema", [pa.schema([("id", pa.int32())]), pa.schema([("other", pa.int64())])], ids=["type", "name"]
)
def test_other_columns_than_expected_are_an_error(schema):
    with pytest.raises(StrangeEntryError):
        decode(DATA, KEY).columns(schema)


def test_offsets_that_lead_out_of_an_entry_are_an_error_and_no_crash():
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 1 << 30, 2)))
    text = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])
    entry = decode(encode(KEY, pa.table({"path": text}), {}), KEY)
    with pytest.raises(StrangeEntryError):
        entry.columns(pa.schema([("path", pa.string())]))
