"""The fuzzer finds planted faults, classifies them, and reduces them."""

import io
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
from fuzz_assessment import OutcomeKind, assess_read, assess_untrusted
from fuzz_benches import Bench, plain_parquet
from fuzz_findings import FuzzFinding
from fuzz_log_views import other_views
from fuzz_mutants import GROUP, applied, draw, order
from fuzz_reading import Leak, Refusal, counted
from fuzz_shrinking import apply_hunks, hunks, minimal, shrink
from fuzz_workers import FuzzWorker
from mutate_tokens import Token, encoded

from harness.suite.scenarios.building import build
from harness.suite.scenarios.loading import load
from harness.suite.scenarios.verifying import read_with, verify

SUBJECT = "iceberg/deletes/vector-of-a-run"
MANAGED = "delta/catalog/ratified-commits-are-read"
QUIET = SimpleNamespace(opened=None, sockets=0)
"""Used instead of a SocketWatch, which would stay in the test process."""


@pytest.fixture
def bench(tmp_path):
    return Bench(fuzz_subjects.make(SUBJECT, tmp_path / "subject"), QUIET, lambda: None)


@pytest.mark.parametrize(
    ("fault", "target", "subject", "kinds", "signature"),
    [
        ("a KeyError comes out", "roaring", SUBJECT, {OutcomeKind.LEAK}, "leak KeyError metadata/deletes/puffin.py"),
        ("deletes are left out", "roaring", SUBJECT, {OutcomeKind.DISPUTED}, "disputed"),
        (
            "a commit that the listing lacks is passed over",
            "listings",
            "delta/time-travel/by-version",
            {OutcomeKind.WRONG, OutcomeKind.DISPUTED},
            "",
        ),
        (
            "parts of a catalog's answer are taken to be there",
            "catalog",
            MANAGED,
            {OutcomeKind.LEAK},
            "leak KeyError metadata/catalogs/unity_rest.py",
        ),
        (
            "indexes of deletes that no answer has are passed over",
            "plans",
            SUBJECT,
            {OutcomeKind.DISPUTED},
            "disputed",
        ),
        (
            "keys are sent to any address that a catalog names",
            "plans",
            "iceberg/deletes/equality-delete-sequence-is-strict",  # in a bucket that the user has a key for
            {OutcomeKind.LEAK},
            "leak ForeignHost",
        ),
        (
            "texts of a worker keep their control characters",
            "worker",
            SUBJECT,
            {OutcomeKind.LEAK},
            "leak Unprintable contained",
        ),
    ],
)
def test_a_planted_fault_is_found_and_reduced(monkeypatch, tmp_path, fault, target, subject, kinds, signature):
    bench = Bench(fuzz_subjects.make(subject, tmp_path / "subject"), QUIET, lambda: None)
    image, read = bench.image(target), bench.subject.reads[0]
    bench.original(read)
    files = [name for name in image if target != "roaring" or name.endswith(".puffin")]
    answering = replace(bench.subject, image=image)

    def assess_one(number):
        mutant = draw(target, 1, number, answering, files, read)
        return mutant, bench.assess(applied(mutant, image), read)

    assessments = [assess_one(number)[1] for number in range(40)]
    assert not any(assessment.kind.is_finding for assessment in assessments)
    assert OutcomeKind.REFUSED in {assessment.kind for assessment in assessments}
    for module, name, wrong in plants.PLANTS[fault]:
        monkeypatch.setattr(module, name, wrong)
    mutants = map(assess_one, range(400))
    mutant, assessment = next((m, v) for m, v in mutants if v.kind in kinds and v.signature.startswith(signature))

    noise = {} if target != "roaring" else {"metadata/v1.metadata.json": b"{}"}
    small = shrink(
        image,
        [{**applied(mutant, image), **noise}],
        lambda tried: (
            (shrunk := bench.assess(tried, read)).kind is assessment.kind and shrunk.signature == assessment.signature
        ),
    )
    assert bench.assess(small, read).kind is assessment.kind
    place = fuzz_findings.write(FuzzFinding(mutant, assessment, image, small), tmp_path)
    assert fuzz_findings.load_again(place) == (subject, read, small)
    assert "fuzz.py --again" in (place / "README.md").read_text()
    if target == "roaring":
        (damaged,) = (name for name, data in small.items() if data is not None)
        assert sum(end - start for start, end, _ in hunks(image[damaged], small[damaged])) <= 4
        assert small["metadata/v1.metadata.json"] is None  # not read by any reader
        built = build(load(place / "scenario.yaml"), tmp_path / "built")
        try:
            assert verify(built.expectations[0], read_with(built, "duckdb")) is not None
        except KeyError:
            assert assessment.kind is OutcomeKind.LEAK


def test_a_killed_process_ends_only_its_own_mutant():
    with FuzzWorker("plants:end_or_never_end") as worker:
        results = list(worker.group("roaring", 1, 0, 8, SUBJECT))
        assert [assess_read.mutant.name for assess_read in results] == [f"roaring-1-{number}" for number in range(8)]
        by_kind = {assess_read.assessment.kind: assess_read for assess_read in results}
        assert by_kind[OutcomeKind.TIME].assessment.signature.startswith("SIGXCPU metadata/deletes/puffin.py")
        assert by_kind[OutcomeKind.CRASH].assessment.signature.startswith("SIGABRT metadata/deletes/puffin.py")
        finding = fuzz.shrink_finding(by_kind[OutcomeKind.CRASH], worker, SUBJECT, tries=60)
    assert all(name.endswith(".puffin") for name, data in finding.changes.items() if data is not None)
    assert None in finding.changes.values()  # files that the finding does not need were removed


def test_a_run_without_findings(capsys):
    code = fuzz.main(["--target", "roaring", "--subject", SUBJECT, "--seed", "1", "--mutants", "32", "--jobs", "1"])
    printed = capsys.readouterr().out
    assert code == 0
    assert "fuzz.py --seed 1 --target roaring" in printed
    assert "\n32 mutants in" in printed


def rows(*values):
    return counted(pa.table({"a": list(values)}))


M = Decimal(1_000_000)


@pytest.mark.parametrize(
    ("outcome", "original", "oracle", "careful", "kind"),
    [
        (rows(1), rows(1), rows(1), None, OutcomeKind.SAME),
        (rows(1), rows(1), Refusal("x"), None, OutcomeKind.SAME),
        (rows(2), rows(1), rows(2), None, OutcomeKind.OTHER),
        (rows(1), rows(1), rows(2), rows(1), OutcomeKind.WRONG),
        (rows(2), rows(1), rows(1), rows(2), OutcomeKind.WRONG),
        (rows(0.0), rows(1), rows(-0.0), rows(2), OutcomeKind.WRONG),
        (rows(1), rows(2), rows(1.0), rows(2), OutcomeKind.WRONG),
        (rows(float("nan")), rows(1), rows(float("nan")), rows(2), OutcomeKind.OTHER),
        (rows(1), rows(1, 1), rows(1, 1), rows(1, 1), OutcomeKind.SKIPPED),
        (rows(3), rows(1, 1), rows(1, 1), rows(3), OutcomeKind.WRONG),
        (rows(1), rows(2), Refusal("[PartitionValueConflict]"), rows(1), OutcomeKind.TOLERATED),
        (rows(5, 2**40), rows(1), rows(5, 2**40 + 2**64 // 1000), rows(1), OutcomeKind.TOLERATED),
        (rows(5, 2**40), rows(1), rows(6, 2**40 + 2**64 // 1000), rows(1), OutcomeKind.WRONG),
        (rows(Decimal(16960), M), rows(1), rows(M, M), rows(1), OutcomeKind.TOLERATED),
        (rows(Decimal(16961), M), rows(1), rows(M, M), rows(1), OutcomeKind.WRONG),
        (rows(2), rows(1), Refusal("x"), rows(2), OutcomeKind.DISPUTED),
        (rows(2), rows(1), Refusal("x"), Refusal("y"), OutcomeKind.SKIPPED),
        (rows(2), rows(1), Leak("KeyError", "oracle", ""), rows(2), OutcomeKind.DISPUTED),
        (Refusal("x"), rows(1), None, None, OutcomeKind.REFUSED),
        (Leak("KeyError", "a", ""), rows(1), None, None, OutcomeKind.LEAK),
        (Refusal("DuckDB failed: INTERNAL Error: x"), rows(1), None, None, OutcomeKind.INTERNAL),
        (Refusal("FATAL Error: Failed: database has been invalidated"), rows(1), None, None, OutcomeKind.INTERNAL),
        (Leak("MemoryError", "a", ""), rows(1), None, None, OutcomeKind.MEMORY),
    ],
)
def test_assessments(outcome, original, oracle, careful, kind):
    assert assess_read(outcome, original, lambda: [oracle], lambda: [careful]).kind is kind


def test_any_of_several_redundant_sources_may_be_believed():
    """A Delta table stores the same information in commits and a checkpoint."""
    opinions = [rows(1), rows(2), rows(3)]
    assert assess_read(rows(2), rows(1), lambda: opinions, lambda: [rows(2)]).kind is OutcomeKind.OTHER
    assert assess_read(rows(4), rows(1), lambda: opinions, lambda: [rows(4)]).kind is OutcomeKind.WRONG


def test_an_untrusted_table_that_loses_rows_by_skipping_is_a_finding():
    assert assess_untrusted(rows(1, 2), rows(1, 2)) is None
    assert assess_untrusted(Refusal("x"), rows(1, 2)) is None
    assert assess_untrusted(rows(1), rows(1, 2)).kind is OutcomeKind.UNTRUSTED


def test_a_new_scenario_takes_its_share_of_the_mutants_and_leaves_the_others():
    names = [f"delta/paths/s{i}" for i in range(20)]
    groups = [(order("json", 1, n * GROUP, names), order("json", 1, n * GROUP, [*names, "new"])) for n in range(400)]
    assert all([name for name in more if name != "new"] == before for before, more in groups)
    assert 5 <= sum(more[0] == "new" for _, more in groups) <= 40  # about 400 / 21
    assert {before[0] for before, _ in groups} == set(names)


def test_views_of_a_log():
    """There are two checkpoints at version 2, one of them multi-part, and versions 3 and 4 are compacted."""
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
    assert list(other_views(image, 4)) == views  # there is nothing later
    assert list(other_views(image, 3)) == [*views, dict.fromkeys((commits[4], compacted))]
    assert list(other_views({name: image[name] for name in commits}, 3)) == []


def test_plain_files_keep_instants_of_their_kind():
    """An INT96 that became another timestamp would be refused or have another type, and the comparison would be
    meaningless.
    """
    out = io.BytesIO()
    pq.write_table(pa.table({"t": pa.array([0], pa.timestamp("us"))}), out, use_deprecated_int96_timestamps=True)
    plain = pq.ParquetFile(io.BytesIO(plain_parquet(out.getvalue())))
    assert plain.schema.column(0).physical_type == "INT96"


def test_statistics_in_a_data_file_may_be_wrong(bench):
    """DuckDB reads nulls if the footer says that all values are null, so these are not wrong rows of harness."""
    name = next(name for name, data in bench.subject.image.items() if data[:4] == b"PAR1")
    out = io.BytesIO()
    pq.write_table(pq.read_table(bench.subject.directory / name), out, compression="none")
    body, tokens = mutate_parquet.split_file(out.getvalue())
    rows = pq.read_metadata(io.BytesIO(out.getvalue())).num_rows
    assessments = []
    for place in [i for i, token in enumerate(tokens) if token == Token("signed", 0)]:
        changed = [*tokens[:place], Token("signed", rows), *tokens[place + 1 :]]
        footer = encoded(changed)
        data = body + footer + len(footer).to_bytes(4, "little") + b"PAR1"
        assessments.append(bench.assess({name: data}, bench.subject.reads[0]).kind)
    assert OutcomeKind.SKIPPED in assessments
    assert not any(kind.is_finding for kind in assessments)


def test_a_table_that_reads_otherwise_after_a_mutant_is_a_finding(bench, monkeypatch):
    read = bench.subject.reads[0]
    original, _ = bench.original(read)
    outcomes = iter([original, Refusal("EngineError: broken")])
    monkeypatch.setattr(fuzz_benches, "by_duckdb", lambda *_, **__: next(outcomes))
    assert bench.assess({}, read).kind is OutcomeKind.NEIGHBOR


def test_minimal_keeps_what_is_needed():
    assert minimal(range(100), lambda parts: {3, 42, 99} <= set(parts)) == [3, 42, 99]


@pytest.mark.parametrize("after", [b"abXdefghYj", b"abdefghij", b"abcdefghijk", b"", b"xabcdefghij", b"abcdefghij"])
@pytest.mark.parametrize("more", [b"", b"k" * 9000])
def test_hunks_make_the_file(after, more):
    before, after = b"abcdefghij" + more, after + more
    assert apply_hunks(before, hunks(before, after)) == after
    assert apply_hunks(before, []) == before
