import json
from typing import Any

import pytest

from harness.errors import InvalidTableError
from harness.metadata.iceberg.name_mapping import parse_name_mapping


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ([{"field-id": 1, "names": ["a"]}, {"field-id": 2, "names": ["a"]}], "'a' occurs twice"),
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
