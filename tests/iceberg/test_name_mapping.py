from __future__ import annotations

import json
from typing import Any

import pytest

from harness.errors import InvalidTableError
from harness.metadata.iceberg.name_mapping import parse_name_mapping
from harness.metadata.model.file_schema import MappedName, NameMapping


def test_name_mapping_keeps_levels_aliases_and_hidden_columns_5_7() -> None:
    text = json.dumps(
        [
            {"field-id": 0, "names": ["id", "record.id"]},
            {"names": ["hidden"]},
            {"field-id": 2},
            {"field-id": 3, "names": ["ID"], "fields": None},
            {
                "field-id": 4,
                "names": ["points"],
                "fields": [{"field-id": 5, "names": ["element"], "fields": [{"field-id": 6, "names": ["id"]}]}],
            },
        ]
    )
    assert parse_name_mapping(text) == NameMapping(
        (
            MappedName(names=("id", "record.id"), field_id=0),
            MappedName(names=("hidden",), field_id=None),
            MappedName(names=(), field_id=2),
            MappedName(names=("ID",), field_id=3),
            MappedName(
                names=("points",),
                field_id=4,
                fields=(MappedName(names=("element",), field_id=5, fields=(MappedName(names=("id",), field_id=6),)),),
            ),
        )
    )


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        pytest.param(
            [{"field-id": 1, "names": ["a"]}, {"field-id": 2, "names": ["a"]}], "'a' occurs twice", id="names"
        ),
        pytest.param([{"field-id": 1, "names": ["a", "a"]}], "'a' occurs twice", id="names of one entry"),
        pytest.param([{"names": ["a"]}, {"field-id": 2, "names": ["a"]}], "'a' occurs twice", id="hidden and mapped"),
        pytest.param(
            [{"field-id": 1, "names": ["a"]}, {"names": ["b"], "fields": [{"field-id": 1, "names": ["c"]}]}],
            "field id 1 occurs twice",
            id="ids",
        ),
        pytest.param({"field-id": 1}, "expected a list", id="object"),
        pytest.param([{"field-id": "1", "names": ["a"]}], "expected a 32-bit integer", id="id text"),
        pytest.param([{"field-id": 1, "names": "a"}], "expected a list of strings", id="names text"),
    ],
)
def test_name_mapping_refuses_what_is_ambiguous_5_7(mapping: Any, message: str) -> None:
    with pytest.raises(InvalidTableError, match=message):
        parse_name_mapping(json.dumps(mapping))


def test_name_mapping_refuses_text_that_is_no_json() -> None:
    with pytest.raises(InvalidTableError) as caught:
        parse_name_mapping("[{", file="v1.metadata.json")
    assert str(caught.value) == (
        "Cannot parse name mapping: got '[{', expected a JSON list "
        "[InvalidTable; file v1.metadata.json, field schema.name-mapping.default, rule iceberg 5.7]"
    )
