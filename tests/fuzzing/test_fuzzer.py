"""The fuzzer finds faults that are planted, says what they are, and makes them small."""

from __future__ import annotations

import io
import itertools
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import fuzz
import fuzz_benches
import fuzz_findings
import fuzz_subjects
import mutate_parquet
import plants
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzz_benches import Bench, plain_parquet
from fuzz_judging import Kind, judged, judged_untrusted
from fuzz_log_views import other_views
from fuzz_mutants import GROUP, applied, draw, order
from fuzz_reading import Leaked, Refused, counted
from fuzz_shrinking import Shrinker, hunks, minimal, patched
from fuzz_workers import Worker

from harness.metadata.catalogs import unity_rest
from harness.metadata.delta import segment
from harness.metadata.iceberg import position_deletes
from harness.testing.scenarios.building import build
from harness.testing.scenarios.loading import load
from harness.testing.scenarios.verifying import read_with, verify
from harness.tools.contained import reading

SUBJECT = "iceberg/deletes/vector-of-a-run"
MANAGED = "delta/catalog/ratified-commits-are-read"
QUIET = SimpleNamespace(opened=None, sockets=0)
"""In place of a Watch, which would stay with the test process for ever."""


@pytest.fixture
def plant(monkeypatch):
    """Plants a fault until the end of the test."""
    touched = (
        *((position_deletes, name) for name in ("decode_deletion_vector", "_check_counts")),
        *((segment, name) for name in ("_check_chain", "_commits")),
        *((unity_rest, "_of"), (reading, "visible")),
    )
    for module, name in touched:
        monkeypatch.setattr(module, name, getattr(module, name))
    return lambda fault: fault()


@pytest.fixture
def bench(tmp_path):
    return Bench(fuzz_subjects.make(SUBJECT, tmp_path / "subject"), QUIET, lambda: None)


def first_finding(bench, plant, fault):
    """The first mutant of the roaring target that is a finding, and what it changes, with the fault and without."""
    read = bench.subject.reads[0]
    bench.original(read)
    files = [name for name in bench.subject.image if name.endswith(".puffin")]
    for number in range(GROUP):
        changes = applied(draw("roaring", 1, number, bench.subject, files, read), bench.subject.image)
        assert not bench.judge(changes, read).kind.is_finding
    plant(fault)
    for number in range(GROUP):
        changes = applied(draw("roaring", 1, number, bench.subject, files, read), bench.subject.image)
        verdict = bench.judge(changes, read)
        if verdict.kind.is_finding:
            return read, changes, verdict
    return pytest.fail("not found")


@pytest.mark.parametrize(
    ("fault", "kind", "signature"),
    [
        (plants.leak, Kind.LEAK, "leak KeyError metadata/iceberg/position_deletes.py:read_deletion_vector"),
        (plants.no_rows_deleted, Kind.DISPUTED, "disputed"),
    ],
)
def test_a_planted_fault_is_found_and_made_small(bench, plant, tmp_path, fault, kind, signature):
    read, changes, verdict = first_finding(bench, plant, fault)
    assert verdict.kind is kind
    assert verdict.signature.startswith(signature)
    noise = {"metadata/v1.metadata.json": b"{}"}

    def shows(tried):
        found = bench.judge(tried, read)
        return (found.kind, found.signature) == (verdict.kind, verdict.signature)

    small = Shrinker(bench.subject.image, shows).shrink([{**changes, **noise}])
    (damaged,) = (name for name, data in small.items() if data is not None)
    assert damaged.endswith(".puffin")
    assert sum(end - start for start, end, _ in hunks(bench.subject.image[damaged], small[damaged])) <= 4
    assert small["metadata/v1.metadata.json"] is None  # nobody reads it

    finding = fuzz_findings.Finding(
        name="roaring-1-0",
        subject=SUBJECT,
        read=read,
        mutations=("roaring.blob of a file",),
        verdict=verdict,
        image=bench.subject.image,
        changes=small,
    )
    place = fuzz_findings.write(finding, tmp_path)
    assert fuzz_findings.load_again(place) == (SUBJECT, read, small)
    assert "fuzz.py --again" in (place / "README.md").read_text()
    built = build(load(place / "scenario.yaml"), tmp_path / "built")
    again = read_with(built, "duckdb")
    if kind is Kind.LEAK:
        with pytest.raises(KeyError):
            verify(built.expectations[0], again)
    else:
        assert verify(built.expectations[0], again) is not None


@pytest.mark.parametrize(
    ("target", "subject", "fault", "kinds", "signature"),
    [
        ("listings", "delta/time-travel/by-version", plants.gaps_are_passed_over, {Kind.WRONG, Kind.DISPUTED}, ""),
        ("catalog", MANAGED, plants.answers_are_believed, {Kind.LEAK}, "leak KeyError metadata/catalogs/unity_rest.py"),
        ("worker", SUBJECT, plants.texts_are_shown_as_they_are, {Kind.LEAK}, "leak Unprintable contained"),
    ],
)
def test_a_planted_fault_with_an_answer_is_found(plant, tmp_path, target, subject, fault, kinds, signature):
    bench = Bench(fuzz_subjects.make(subject, tmp_path / "subject"), QUIET, lambda: None)
    image, read = bench.image(target), bench.subject.reads[0]
    answering = replace(bench.subject, image=image)
    mutants = [applied(draw(target, 1, n, answering, list(image), read), image) for n in range(60)]
    verdicts = [bench.judge(changes, read) for changes in mutants]
    assert not any(verdict.kind.is_finding for verdict in verdicts)
    assert {Kind.SAME, Kind.REFUSED} <= {verdict.kind for verdict in verdicts}
    plant(fault)
    found = [(changes, verdict) for changes in mutants if (verdict := bench.judge(changes, read)).kind.is_finding]
    assert {verdict.kind for _, verdict in found} & kinds
    assert any(verdict.signature.startswith(signature) for _, verdict in found)

    changes, verdict = found[0]
    finding = fuzz_findings.Finding(
        name=f"{target}-1-0",
        subject=subject,
        read=read,
        mutations=("a mutation",),
        verdict=verdict,
        image=image,
        changes=changes,
    )
    again = fuzz_findings.load_again(fuzz_findings.write(finding, tmp_path))
    assert again == (subject, read, changes)
    assert bench.judge(again[2], read) == verdict


def test_what_kills_a_process_ends_no_more_than_its_mutant():
    with Worker("plants:end_or_never_end") as worker:
        found = list(worker.group("roaring", 1, 0, 3, SUBJECT))
        assert [judged.told["name"] for judged in found] == [f"roaring-1-{number}" for number in range(3)]
        kinds = [judged.verdict.kind for judged in found]
        assert kinds == [Kind.REFUSED, Kind.TIME, Kind.CRASH]
        _, stuck, crash = found
        assert crash.verdict.signature.startswith("SIGABRT metadata/iceberg/position_deletes.py")
        assert stuck.verdict.signature.startswith("SIGXCPU metadata/iceberg/position_deletes.py")
        finding = fuzz.shrunk(crash, worker, SUBJECT, tries=12)
    assert all(name.endswith(".puffin") for name, data in finding.changes.items() if data is not None)
    assert None in finding.changes.values()  # files were taken away that it does not need


def test_a_run_without_findings(capsys, tmp_path):
    code = fuzz.main(["--target", "roaring", "--subject", SUBJECT, "--seed", "1", "--mutants", "32", "--jobs", "1"])
    printed = capsys.readouterr().out
    assert code == 0
    assert "fuzz.py --seed 1 --target roaring" in printed
    assert "32 mutants in" in printed


def rows(*values):
    return counted(pa.table({"a": list(values)}))


M = Decimal(1_000_000)


@pytest.mark.parametrize(
    ("outcome", "original", "oracle", "careful", "kind"),
    [
        (rows(1), rows(1), rows(1), None, Kind.SAME),
        (rows(1), rows(1), Refused("x"), None, Kind.SAME),
        (rows(2), rows(1), rows(2), None, Kind.OTHER),
        (rows(2), rows(1), None, None, Kind.OTHER),
        (rows(1), rows(1), rows(2), rows(1), Kind.WRONG),
        (rows(2), rows(1), rows(1), rows(2), Kind.WRONG),
        (rows(1), rows(1, 1), rows(1, 1), rows(1, 1), Kind.SKIPPED),
        (rows(3), rows(1, 1), rows(1, 1), rows(3), Kind.WRONG),
        (rows(1), rows(2), Refused("[PartitionValueConflict]"), rows(1), Kind.TOLERATED),
        (rows(5, 2**40), rows(1), rows(5, 2**40 + 2**64 // 1000), rows(1), Kind.TOLERATED),
        (rows(5, 2**40), rows(1), rows(6, 2**40 + 2**64 // 1000), rows(1), Kind.WRONG),
        (rows(Decimal(16960), M), rows(1), rows(M, M), rows(1), Kind.TOLERATED),
        (rows(Decimal(16961), M), rows(1), rows(M, M), rows(1), Kind.WRONG),
        (rows(2), rows(1), Refused("x"), rows(2), Kind.DISPUTED),
        (rows(2), rows(1), Refused("x"), Refused("y"), Kind.SKIPPED),
        (rows(2), rows(1), Leaked("KeyError", "oracle", ""), rows(2), Kind.DISPUTED),
        (Refused("x"), rows(1), None, None, Kind.REFUSED),
        (Leaked("KeyError", "a", ""), rows(1), None, None, Kind.LEAK),
        (Refused("DuckDB failed: INTERNAL Error: x"), rows(1), None, None, Kind.INTERNAL),
        (Leaked("MemoryError", "a", ""), rows(1), None, None, Kind.MEMORY),
    ],
)
def test_verdicts(outcome, original, oracle, careful, kind):
    assert judged(outcome, original, lambda: [oracle], lambda: [careful]).kind is kind


def test_any_of_several_places_that_say_the_same_may_be_believed():
    """Of a Delta table, commits and a checkpoint."""
    opinions = [rows(1), rows(2), rows(3)]
    assert judged(rows(2), rows(1), lambda: opinions, lambda: [rows(2)]).kind is Kind.OTHER
    assert judged(rows(4), rows(1), lambda: opinions, lambda: [rows(4)]).kind is Kind.WRONG


def test_a_new_scenario_takes_its_share_of_the_mutants_and_leaves_the_others():
    names = [f"delta/paths/s{i}" for i in range(20)]
    groups = [(order("json", 1, n * GROUP, names), order("json", 1, n * GROUP, [*names, "new"])) for n in range(400)]
    assert all([name for name in more if name != "new"] == found for found, more in groups)
    assert 5 <= sum(more[0] == "new" for _, more in groups) <= 40  # some 400 / 21
    assert {found[0] for found, _ in groups} == set(names)


def test_views_of_a_log():
    """Two checkpoints at version 2, one of them in parts, and versions 3 and 4 compacted."""
    parts = [f"_delta_log/{2:020d}.checkpoint.{i:010d}.{2:010d}.parquet" for i in (1, 2)]
    whole = f"_delta_log/{2:020d}.checkpoint.parquet"
    commits = [f"_delta_log/{version:020d}.json" for version in range(5)]
    compacted = f"_delta_log/{3:020d}.{4:020d}.compacted.json"
    image = {name: name.encode() for name in (*commits, *parts, whole, compacted)}
    views = list(other_views(image))
    of_compacted = {commits[3]: b'{"commitInfo":{}}\n', commits[4]: compacted.encode()}
    of_parts = dict.fromkeys((*commits[:2], whole))
    of_whole = dict.fromkeys((*commits[:2], *parts))
    assert views == [of_parts, {**of_parts, **of_compacted}, of_whole, {**of_whole, **of_compacted}, of_compacted]
    assert list(other_views(image, 4)) == views  # nothing is later
    assert list(other_views(image, 3)) == [*views, dict.fromkeys((commits[4], compacted))]
    assert list(other_views({name: image[name] for name in commits}, 3)) == []


def test_plain_files_keep_instants_of_their_kind():
    """An INT96 that became another timestamp would be refused or of another type, and the judgement would be void."""
    out = io.BytesIO()
    instants = pa.table({"t": pa.array([0], pa.timestamp("us"))})
    pq.write_table(instants, out, use_deprecated_int96_timestamps=True)
    plain = pq.ParquetFile(io.BytesIO(plain_parquet(out.getvalue())))
    assert plain.schema.column(0).physical_type == "INT96"


def test_statistics_in_a_data_file_may_lie(bench, tmp_path):
    """DuckDB reads nulls where the footer says that all are null, and so no wrong rows of harness."""
    name = next(name for name, data in bench.subject.image.items() if data[:4] == b"PAR1")
    out = io.BytesIO()
    pq.write_table(pq.read_table(bench.subject.directory / name), out, compression="none")
    body, tokens = mutate_parquet._taken_apart(out.getvalue())
    rows = pq.read_metadata(io.BytesIO(out.getvalue())).num_rows
    counts = [i for i, token in enumerate(tokens) if token == mutate_parquet.Token("integer", 0)]
    verdicts = []
    for place in counts:
        changed = [*tokens[:place], mutate_parquet.Token("integer", rows), *tokens[place + 1 :]]
        footer = mutate_parquet.encoded(changed)
        data = body + footer + len(footer).to_bytes(4, "little") + b"PAR1"
        verdicts.append(bench.judge({name: data}, bench.subject.reads[0]).kind)
    assert Kind.SKIPPED in verdicts
    assert not any(kind.is_finding for kind in verdicts)


def test_rows_are_counted_exactly():
    assert rows(0.0) != rows(-0.0)
    assert rows(float("nan")) == rows(float("nan"))
    assert rows(1, 1) != rows(1)
    assert rows(1) != rows(1.0)
    assert rows([{"a": 1}]) == rows([{"a": 1}])


def test_minimal_keeps_what_is_needed():
    assert minimal(range(100), lambda parts: {3, 42, 99} <= set(parts)) == [3, 42, 99]


@pytest.mark.parametrize("after", [b"abXdefghYj", b"abdefghij", b"abcdefghijk", b"", b"xabcdefghij", b"abcdefghij"])
def test_hunks_make_the_file(after):
    before = b"abcdefghij"
    found = hunks(before, after)
    assert patched(before, found) == after
    assert patched(before, []) == before
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(found))


def test_hunks_of_long_files():
    before, after = b"a" * 9000 + b"b" * 9000, b"a" * 9000 + b"xyz" + b"b" * 9000
    assert hunks(before, after) == [(9000, 9000, b"xyz")]


@pytest.mark.parametrize(
    "text",
    [
        "CorruptFileError: Cannot read file: INTERNAL Error: Attempted to access index 9 [CorruptDataFile]",
        "EngineError: FATAL Error: Failed: database has been invalidated because of a previous fatal error",
    ],
)
def test_a_fault_of_duckdbs_own_is_a_finding(text):
    assert judged(Refused(text), Refused(""), lambda: (), lambda: ()).kind is Kind.INTERNAL


def test_a_table_that_reads_otherwise_after_a_mutant_is_a_finding(bench, monkeypatch):
    read = bench.subject.reads[0]
    original, _ = bench.original(read)
    outcomes = iter([original, Refused("EngineError: broken")])
    monkeypatch.setattr(fuzz_benches, "by_duckdb", lambda *_, **__: next(outcomes))
    assert bench.judge({}, read).kind is Kind.NEIGHBOUR


def test_a_strangers_table_that_loses_rows_by_skipping_is_a_finding():
    less, all_rows = counted(pa.table({"a": [1]})), counted(pa.table({"a": [1, 2]}))
    assert judged_untrusted(all_rows, all_rows) is None
    assert judged_untrusted(Refused("x"), all_rows) is None
    found = judged_untrusted(less, all_rows)
    assert found is not None
    assert found.kind is Kind.UNTRUSTED
