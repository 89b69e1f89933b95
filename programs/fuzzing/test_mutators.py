"""Mutators: parsed files are written unchanged, and the same seed changes the same bytes."""

import json
from dataclasses import replace
from random import Random

import fuzz_answers
import fuzz_mutants
import fuzz_subjects
import mutate_avro
import mutate_json
import mutate_parquet
import mutate_puffin
import mutate_roaring
import pytest
from fuzz_mutants import TARGETS, applied, draw, fitting, kinds_of
from mutate_tokens import encoded

from harness.metadata.deletes.puffin import decode_deletion_vector
from harness.suite.scenarios.loading import parse

ICEBERG = """
title: A table of three with deletes
format: iceberg
clauses: []
table: {format-version: 3, schema: {id: long, name: string}, partition-spec: [[name, identity]]}
history:
  - append: [{data: a, rows: [[1, x], [2, x]]}, {data: b, rows: [[3, y]]}]
  - append: [{data: c, format: avro, rows: [[4, x]]}, {data: d, format: orc, rows: [[5, y]]}]
  - commit: {add: [{deletion-vectors: {a: [1]}}]}
expect: {rows: [[1, x], [3, y], [4, x], [5, y]]}
"""
DELTA = """
title: A table with a checkpoint and deletes
format: delta
clauses: []
table: {schema: {id: long}}
history:
  - append: [{data: a, rows: [[1], [2], [3]]}]
  - delete-rows: {a: [0]}
  - checkpoint: classic
  - delete-rows: {rows: {a: [0, 2]}, storage: i}
  - append: [{data: b, rows: [[4]]}]
  - checksum: 4
expect: {rows: [[2], [4]]}
"""


@pytest.fixture(scope="module")
def subjects(tmp_path_factory):
    texts = (ICEBERG, DELTA)
    return [fuzz_subjects.from_scenario(parse(text, "t"), tmp_path_factory.mktemp("subject")) for text in texts]


@pytest.fixture(params=[0, 1], ids=["iceberg", "delta"])
def subject(request, subjects):
    return subjects[request.param]


def test_a_subject_and_answers_about_it_are_the_same_wherever_it_is(subject, tmp_path):
    text = ICEBERG if "metadata/v1.metadata.json" in subject.image else DELTA
    other = fuzz_subjects.from_scenario(parse(text, "t"), tmp_path / "a")
    assert other.image == subject.image
    for maker in fuzz_answers.KINDS.values():
        assert maker(other).image == maker(subject).image


def test_a_subject_is_whole_after_a_change(subject):
    name = next(iter(subject.image))
    changes = {name: b"other", "new": b"new"}
    with subject.changed(changes):
        assert (subject.directory / name).read_bytes() == b"other"
    files = [path for path in subject.directory.rglob("*") if path.is_file()]
    assert {p.relative_to(subject.directory).as_posix(): p.read_bytes() for p in files} == subject.image


@pytest.mark.parametrize("target", TARGETS)
def test_a_mutant_is_determined_by_its_number(subjects, target):
    if target in fuzz_answers.KINDS:
        subjects = [replace(subject, image=fuzz_answers.KINDS[target](subject).image) for subject in subjects]
    fitted = [(subject, files) for subject in subjects if (files := fitting(target, subject, list(subject.image)))]
    assert fitted
    for subject, files in fitted:
        different = 0
        for number in range(12):
            first, second = (draw(target, 7, number, subject, files, subject.reads[0]) for _ in range(2))
            assert first == second
            before = dict(subject.image)
            changes = applied(first, subject.image)
            assert changes == applied(first, subject.image)
            assert subject.image == before
            different += bool(changes)
        assert different > 6


def test_every_target_is_in_turn():
    assert set(fuzz_mutants.ROTATION) == set(TARGETS)


def files_of(subject, kind):
    return [data for name, data in subject.image.items() if kind in kinds_of(name, data)]


def test_files_are_put_together_as_they_were(subject):
    for data in files_of(subject, "document"):
        assert json.loads(mutate_json.dump(mutate_json.parse(data))) == json.loads(data)
    for data in files_of(subject, "avro"):
        container = mutate_avro.parse(data)
        assert mutate_avro.written(container) == data
        for block in container.blocks:
            assert encoded(container.tokens(block)) == mutate_avro.CODECS[container.codec][1](block.data)
    for data in files_of(subject, "parquet") + files_of(subject, "checkpoint"):
        body, tokens = mutate_parquet.split_file(data)
        assert body + encoded(tokens) + data[-8:] == data


def test_json_may_say_a_key_twice_and_holds_json_in_texts():
    parsed = mutate_json.parse('{"a": 1.50, "a": "[1, {\\"b\\": NaN}]"}')
    assert isinstance(parsed[1][1], mutate_json.Embedded)
    assert mutate_json.dump(parsed) == '{"a":1.50,"a":"[1,{\\"b\\":NaN}]"}'


@pytest.mark.parametrize("codec", mutate_avro.CODECS)
def test_avro_blocks_under_every_codec(codec):
    pack, unpack = mutate_avro.CODECS[codec]
    assert unpack(pack(b"block" * 9)) == b"block" * 9


def test_most_changed_bitmaps_have_a_right_checksum(subject):
    """Decoders then decode the content: some mutants are read, and yield other positions."""
    for data in files_of(subject, "puffin"):
        blob = data[4 : 4 + 8 + int.from_bytes(data[4:8], "big")]
        assert list(decode_deletion_vector(blob)) == [1]
        mutants = {mutate_roaring.blob(blob, Random(seed)) for seed in range(40)}
        assert len(mutants) > 20
        assert {tuple(read(data)) for data in mutants} > {(1,)}
        assert any(mutate_puffin.blobs(data, Random(seed)) != data for seed in range(3))


def read(blob):
    try:
        return decode_deletion_vector(blob)
    except Exception:
        return ()


def test_a_header_of_a_page_is_changed_in_place(subject):
    for data in files_of(subject, "parquet"):
        changed = mutate_parquet.page(data, Random(3))
        length = int.from_bytes(data[-8:-4], "little") + 8
        assert len(changed) == len(data)
        assert changed[-length:] == data[-length:]
