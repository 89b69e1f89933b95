"""Residuals: the parts of a filter that rows of a file must still satisfy, given the file's partition.

Spec: Iceberg, open-api/rest-catalog-open-api.yaml, `FileScanTask.residual-filter`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, assert_never

from harness.metadata.filters.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNan,
    IsNull,
    Leaf,
    Op,
    Or,
    Predicate,
    StartsWith,
    Undecided,
    conjunction,
    disjunction,
    negate,
)
from harness.metadata.filters.skipping import exact_facts, may_match
from harness.metadata.filters.sqltext import literal, quoted, text
from harness.metadata.iceberg.model import PartitionSpec
from harness.metadata.iceberg.skipping import projected
from harness.metadata.iceberg.transforms import UnknownTransform, Void
from harness.metadata.model.schema import Schema


def residual_of(predicate: Predicate, spec: PartitionSpec, values: Mapping[int, Any], schema: Schema) -> Predicate:
    """Return the part of a filter that rows of a partition must still satisfy.

    The residual and the filter keep the same rows of the partition. Conditions that the partition decides are removed.

    Args:
        predicate: The filter.
        spec: The partition spec of the file.
        values: The partition values of the file, by partition field id.
        schema: The schema of the filter.
    """
    match predicate:
        case And(parts=parts):
            return _joined(tuple(residual_of(part, spec, values, schema) for part in parts), is_and=True)
        case Or(parts=parts):
            return _joined(tuple(residual_of(part, spec, values, schema) for part in parts), is_and=False)
        case Constant() | Undecided():
            return predicate
        case _:
            return _decide(predicate, spec, values, schema)


def _decide(leaf: Leaf, spec: PartitionSpec, values: Mapping[int, Any], schema: Schema) -> Predicate:
    """Return a constant if a leaf has the same truth value for all rows of the partition, otherwise the leaf."""
    unusable = (Void, UnknownTransform)
    fields = [f for f in spec.fields if f.source_id == leaf.field.id and not isinstance(f.transform, unusable)]
    if not fields:
        return leaf
    if any(values.get(f.field_id) is None for f in fields):  # only null has the partition value null
        return Constant(isinstance(leaf, IsNull) and not leaf.negated)
    facts = exact_facts([values])
    if not may_match(projected(leaf, spec, schema), facts, 1)[0]:
        return Constant(False)
    return leaf if may_match(projected(negate(leaf), spec, schema), facts, 1)[0] else Constant(True)


def _joined(parts: tuple[Predicate, ...], *, is_and: bool) -> Predicate:
    """Return the AND or OR of parts, simplified by the constants among them. Unknown counts as false."""
    is_true = [isinstance(part, Constant) and part.value is True for part in parts]
    is_false = [isinstance(part, Constant) and part.value is not True for part in parts]
    if any(is_false if is_and else is_true):
        return Constant(not is_and)
    rest = tuple(part for part, true, false in zip(parts, is_true, is_false, strict=True) if not true and not false)
    if not rest:
        return Constant(is_and)
    return conjunction(rest) if is_and else disjunction(rest)


def normal_form(predicate: Predicate) -> Hashable:
    """Return a value that is equal for predicates that differ only in the order, nesting, or repetition of parts."""
    match predicate:
        case And(parts=parts) | Or(parts=parts):
            is_and = isinstance(predicate, And)
            joined = _joined(parts, is_and=is_and)
            if not isinstance(joined, And | Or):
                return normal_form(joined)
            forms: set[Hashable] = set()
            for part in joined.parts:
                form = normal_form(part)
                if isinstance(form, tuple) and form[0] == ("and" if is_and else "or"):
                    forms |= form[1]
                else:
                    forms.add(form)
            return next(iter(forms)) if len(forms) == 1 else ("and" if is_and else "or", frozenset(forms))
        case Constant(value=value):
            return ("constant", value is True)
        case Undecided():
            return ("undecided",)
        case Comparison(field=field, op=Op.EQ | Op.NE as op, value=value):
            return ("in", field.id, frozenset((value,)), op is Op.NE)
        case Comparison(field=field, op=op, value=value):
            return ("compare", field.id, op, value)
        case In(field=field, values=values, negated=negated):
            return ("in", field.id, frozenset(values), negated)
        case IsNull(field=field, negated=negated):
            return ("null", field.id, negated)
        case IsNan(field=field, negated=negated):
            return ("nan", field.id, negated)
        case StartsWith(field=field, prefix=prefix, negated=negated):
            return ("starts", field.id, prefix, negated)
        case _ as unreachable:
            assert_never(unreachable)


def predicate_sql(predicate: Predicate, schema: Schema) -> str:
    """Return a predicate without `Undecided` parts as a boolean expression in DuckDB's dialect.

    Args:
        predicate: The predicate.
        schema: The schema with the columns of the predicate.
    """
    paths = {id_: path for id_, (path, _) in schema.by_id().items()}

    def column(leaf: Leaf) -> str:
        return ".".join(map(quoted, paths[leaf.field.id]))

    def sql(part: Predicate) -> str:
        match part:
            case And(parts=parts):
                return f"({' AND '.join(map(sql, parts))})"
            case Or(parts=parts):
                return f"({' OR '.join(map(sql, parts))})"
            case Constant(value=value):
                return "CAST(NULL AS BOOLEAN)" if value is None else str(value).lower()
            case Comparison(field=field, op=op, value=value):
                return f"({column(part)} {op.value} {literal(value, field.type)})"
            case In(field=field, values=values, negated=negated):
                items = ", ".join(literal(value, field.type) for value in values)
                return f"({column(part)} {'NOT ' if negated else ''}IN ({items}))"
            case IsNull(negated=negated):
                return f"({column(part)} IS {'NOT ' if negated else ''}NULL)"
            case IsNan(negated=negated):
                return f"({'NOT ' if negated else ''}isnan({column(part)}))"
            case StartsWith(prefix=prefix, negated=negated):
                return f"({'NOT ' if negated else ''}starts_with({column(part)}, {text(prefix)}))"
            case Undecided():
                raise ValueError("an undecided predicate has no SQL")
            case _ as unreachable:
                assert_never(unreachable)

    return sql(predicate)
