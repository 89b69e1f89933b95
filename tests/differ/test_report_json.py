from __future__ import annotations

import json

import pytest
from comparing import KEYED, OUTCOME, with_value

from harness.differ.reports.documents import to_json


def test_all_that_the_comparison_holds():
    assert json.loads(to_json(KEYED)) == {
        "format": 1,
        "kind": "comparison",
        "verdict": "different",
        "summary": "1 row changed, 2 rows only on the left, 1 row only on the right, 2 columns of different schema",
        "made": None,
        "left": {
            "name": "orders",
            "engine": "duckdb 2.0.0",
            "table": "lake/orders",
            "snapshot": 4,
            "rows": 1000,
            "error": None,
        },
        "right": {
            "name": "orders",
            "engine": "spark 4.3.0",
            "table": "lake/orders",
            "snapshot": 4,
            "rows": 999,
            "error": None,
        },
        "columns": ["id", "region", "total"],
        "keys": ["id"],
        "schema": [
            {
                "column": "total",
                "kind": "type",
                "left": "decimal(10,2)",
                "right": "decimal(12,2)",
                "rule": None,
                "counts": True,
            },
            {"column": "channel", "kind": "only_left", "left": "string", "right": None, "rule": None, "counts": True},
            {
                "column": "id",
                "kind": "nullable",
                "left": "not null",
                "right": "nullable",
                "rule": None,
                "counts": False,
            },
        ],
        "only_left": 2,
        "only_right": 1,
        "changed": 1,
        "truncated": False,
        "allowed": 0,
        "relaxations": [],
        "schema_only": False,
        "sampled": None,
        "by_column": [],
        "grouped_by": [],
        "groups": 0,
        "by_group": [],
        "by_key": None,
        "by_file": None,
        "rows": [
            {
                "kind": "changed",
                "count": 1,
                "left": ["7", "'eu'", "1.50"],
                "right": ["7", "'us'", "1.50"],
                "differing": ["region"],
                "partner": None,
                "left_origins": [{"file": "data/1.parquet", "position": 6, "hidden_by": []}],
                "right_origins": [{"file": "data/1.parquet", "position": 6, "hidden_by": []}],
            },
            {
                "kind": "only_left",
                "count": 2,
                "left": ["9", "'eu'", "2.00"],
                "right": None,
                "differing": [],
                "partner": None,
                "left_origins": [
                    {"file": "data/1.parquet", "position": 8, "hidden_by": ["data/3-deletes.parquet"]},
                    {"file": "data/2.parquet", "position": 0, "hidden_by": []},
                ],
                "right_origins": [],
            },
            {
                "kind": "only_right",
                "count": 1,
                "left": None,
                "right": ["11", "NULL", "NULL"],
                "differing": [],
                "partner": None,
                "left_origins": [],
                "right_origins": [],
            },
        ],
    }


def test_errors_have_class_cause_rule_and_message():
    assert json.loads(to_json(OUTCOME))["right"] == {
        "name": "orders",
        "engine": "spark 4.3.0",
        "table": "lake/orders",
        "snapshot": 4,
        "rows": None,
        "error": {
            "class": "EngineError",
            "cause": "Engine",
            "rule": None,
            "message": "Cannot run the plan: executor lost [Engine; table lake/orders]",
        },
    }


@pytest.mark.parametrize("value", ["\x1b[31m", "\x00", "\ud800", 'a"b\\', "é日", "</script>"], ids=ascii)
def test_values_come_back_as_they_are(value):
    text = to_json(with_value(value))
    text.encode("utf-8")
    assert json.loads(text)["rows"][0]["left"] == ["1", value]
