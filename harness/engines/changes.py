"""The steps from rows with lifetimes (`harness.metadata.plan.lifetimes`) to changes, the same on all engines.

Each step is a list of SQL expressions that both engines understand. `Rows` is the interface to an engine's relations,
and `Dialect` holds the few functions whose names differ. Columns have generated names, which need no quotes:

- `c0`, `c1`, … are the columns of the plan that reads the files, in order.
- `e` is 1 for an insert and 0 for a delete, and `g` is the number of its commit.
- `w` is true if the row came or left with a file of a commit that also removed or added other files.

Inserts and deletes of equal rows cancel only where necessary: in commits that removed and added data files, and in net
changes. Rows of all other files stream through the steps one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final, Protocol, Self, TypeVar

import pyarrow as pa

from harness.engines.change_roles import Role, file_roles
from harness.errors import HarnessError, RequestError
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import array_of
from harness.metadata.plan.lifetimes import ChangeMode, Lifetimes
from harness.metadata.plan.scan_plan import P, ScanPlan
from harness.storage.records import dataclass


class Rows(Protocol):
    """Rows of one engine. Each method returns new rows."""

    def select(self, columns: Mapping[str, str]) -> Self:
        """Compute columns from expressions, by label. An expression may be a window, or one that repeats rows."""

    def where(self, condition: str) -> Self:
        """Keep the rows for which a condition is true."""

    def group(self, keys: Sequence[str], aggregates: Mapping[str, str]) -> Self:
        """Return a row for each group of rows with equal keys, with the keys and aggregates. Nulls are equal."""

    def union(self, other: Self) -> Self:
        """Append rows with the same columns."""

    def join(self, other: Self, on: str) -> Self:
        """Return the pairs of rows for which a condition is true, with the columns of both."""


R = TypeVar("R", bound=Rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The functions whose names or syntax differ between the engines.

    Attributes:
        filter_list: Returns the elements of a list that fulfill a condition.
        transform_list: The expression that applies a function to the elements of a list, with the places `{items}` and
            `{function}`. The results of equal lists are in the same order.
        least_item: Returns the least element of a list.
        sort_list: Sorts a list.
        pack: Returns a struct of expressions. Their names do not matter.
        function: A lambda function of one parameter, with the places `{name}` and `{body}`.
        repeat: An expression that returns a row for each integer from `{first}` to `{end}`, without the latter.
        text_key: The expression of a text that is compared by its bytes, with the place `{text}`.
        text_of_key: The text, given its key with the place `{key}`.
        inner_text_key: As `text_key`, for a text in a nested value.
        number_key: The expression of a float that is compared without the sign of zero, with the place `{number}`.
        negative_zero: The condition that a number is -0.0, with the place `{number}`. It may be null for other numbers.
        extract: Returns the expression of a field, given that of a struct and the name of the field.
        fail: Returns an expression that fails the query with an error.
    """

    filter_list: str
    transform_list: str
    least_item: str
    sort_list: str
    pack: str
    function: str
    repeat: str
    text_key: str
    text_of_key: str
    inner_text_key: str
    number_key: str
    negative_zero: str
    extract: Callable[[str, str], str]
    fail: Callable[[HarnessError], str]

    def filtered(self, items: str, name: str, condition: str) -> str:
        """Return the list of items for which a condition on `name` is true."""
        return f"{self.filter_list}({items}, {self.function.format(name=name, body=condition)})"

    def transformed(self, items: str, name: str, body: str) -> str:
        """Return the list of the values of an expression of `name` for each item."""
        return self.transform_list.format(items=items, function=self.function.format(name=name, body=body))


def first_delete(deletes: str, dialect: Dialect) -> str:
    """Return the least number of the equality deletes that apply to a row, or null.

    Args:
        deletes: A list of structs of `DELETE_FACTS`, which are the deletes with the row's keys.
        dialect: The dialect.
    """
    # The columns `sq`, `fa`, and `fr` are those of `UnionArm.values`.
    applies = "sq < x.ks AND (x.kr IS NULL OR x.kr > fa) AND (fr IS NULL OR x.ka < fr)"
    return f"{dialect.least_item}({dialect.transformed(dialect.filtered(deletes, 'x', applies), 'x', 'x.kn')})"


DELETE_FACTS: Final = ("kn", "ks", "ka", "kr")
"""The facts about an equality delete that decide whether it applies to a row, see `DeletedKeys.constants`."""


_ADDED, _REMOVED, _DELETED_BY = (dt.LIFETIMES[name] for name in ("_added_commit", "_removed_commit", "_deleted_by"))
_LIFETIMES = (_ADDED, _REMOVED, _DELETED_BY)
_ROW_ID = dt.METADATA["_row_id"]
_OF_COMMITS = {"_change_ordinal": "o", "_commit_snapshot_id": "s"}
_CHANGE_IDS = frozenset(f.id for f in dt.SNAPSHOT_CHANGES.values())


def filters_files(plan: ScanPlan, lifetimes: Lifetimes) -> bool:
    """Return whether the plan's filter applies to the rows of files. Otherwise it applies to the changes.

    A filter of rows must keep or drop equal rows together, so it may not use metadata columns. It must not separate two
    rows that row ids or keys match although their values differ.
    """
    if plan.filter is None or lifetimes.mode is ChangeMode.UPDATES:
        return False
    if lifetimes.mode is ChangeMode.CHANGELOG and lifetimes.row_ids:
        return False
    columns = {f.id for f in plan.schema.fields}
    return all(f.id in columns for f in plan.filter.columns)


def base_plan(plan: P, lifetimes: Lifetimes) -> P:
    """Return the plan of the rows with lifetimes that the steps need."""
    columns = [f for f in output_columns(plan, lifetimes) if f.id not in _CHANGE_IDS]
    if any(role.compared for role in file_roles(plan, lifetimes)):
        columns += [*plan.schema.fields, *([_ROW_ID] if lifetimes.row_ids else [])]
    columns += _LIFETIMES
    unique = tuple({f.id: f for f in columns}.values())
    return replace(plan, columns=unique, filter=plan.filter if filters_files(plan, lifetimes) else None, enough=None)


def output_columns(plan: ScanPlan, lifetimes: Lifetimes) -> tuple[dt.Field, ...]:
    """Return the columns of the changes: those of the plan, then those that only its filter needs."""
    columns = list(plan.columns)
    if plan.filter is not None and not filters_files(plan, lifetimes):
        columns += plan.filter.columns
    return tuple({f.id: f for f in columns}.values())


def commits_table(lifetimes: Lifetimes) -> pa.Table:
    """Return the commits that show changes: `n` (number), `o` (ordinal), `s` (id), and `rewrites`."""
    shown = [(number, commit) for number, commit in enumerate(lifetimes.commits) if commit.ordinal is not None]
    return pa.table(
        {
            "n": array_of([number for number, _ in shown], pa.int32()),
            "o": array_of([commit.ordinal for _, commit in shown], pa.int32()),
            "s": array_of([commit.id for _, commit in shown], pa.int64()),
            "rewrites": array_of([commit.rewrites for _, commit in shown], pa.bool_()),
        }
    )


def duplicate_keys_error(keys: Sequence[dt.Field]) -> RequestError:
    """Return the error for updates that cannot be paired because keys do not identify rows."""
    names = ", ".join(f.name for f in keys)
    return RequestError(
        f"Cannot pair updates by {names}: in one commit, several deleted or inserted rows have equal keys. Pass keys= "
        "with columns that identify a row, or read the changes without updates",
        cause="DuplicateKeys",
        options=("keys",),
    )


def comparison_keys(value: str, type_: dt.Type, dialect: Dialect) -> list[str]:
    """Return expressions whose values are equal if and only if two values of a column are the same.

    The engines group 0.0 with -0.0, cannot group maps or depend on the order of their entries, and compare text by a
    collation. NaN equals NaN, and null equals null.
    """
    if isinstance(type_, dt.FloatType):
        return [dialect.number_key.format(number=value), dialect.negative_zero.format(number=value)]
    if isinstance(type_, dt.StringType | dt.VariantType):
        return [dialect.text_key.format(text=value)]
    return [_comparison_key(value, type_, dialect, 0)]


def _comparison_key(value: str, type_: dt.Type, dialect: Dialect, depth: int) -> str:
    if not _needs_key(type_):
        return value
    item = f"x{depth}"

    def keys(parts: Mapping[str, dt.Field]) -> str:
        packed = [_comparison_key(access, f.type, dialect, depth + 1) for access, f in parts.items()]
        return f"{dialect.pack}({', '.join(packed)})"

    match type_:
        case dt.FloatType():
            key = f"{dialect.pack}({value}, {dialect.negative_zero.format(number=value)})"
        case dt.StructType(fields=fields):
            key = keys({dialect.extract(value, f.name): f for f in fields})
        case dt.ListType(element=element):
            key = dialect.transformed(value, item, _comparison_key(item, element.type, dialect, depth + 1))
        case dt.MapType(key=key_field, value=value_field):
            entry = keys({f"{item}.key": key_field, f"{item}.value": value_field})
            key = f"{dialect.sort_list}({dialect.transformed(f'map_entries({value})', item, entry)})"
        case _:
            return dialect.inner_text_key.format(text=value)
    return f"CASE WHEN {value} IS NOT NULL THEN {key} END"


def _needs_key(type_: dt.Type) -> bool:
    match type_:
        case dt.StringType() | dt.VariantType() | dt.FloatType() | dt.MapType():
            return True
        case _:
            return any(_needs_key(f.type) for f in dt.children(type_))


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one plan.

    Attributes:
        plan: The plan of the changes.
        lifetimes: Its lifetimes.
        columns: The columns of `base_plan`.
        dialect: The dialect.
    """

    plan: ScanPlan
    lifetimes: Lifetimes
    columns: tuple[dt.Field, ...]
    dialect: Dialect

    def changes(self, files: Sequence[tuple[Role, R]], commits: R) -> R:
        """Return the changes, with the columns of `output_columns` as `c0`, `c1`, ….

        Args:
            files: The rows of `base_plan`, by role.
            commits: The rows of `commits_table`.
        """
        streamed = [self._events(rows, role) for role, rows in files if not role.compared]
        outputs = [self._output(rows, commits, updated="false") for rows in streamed]
        parts: dict[int, list[R]] = {}
        for role, rows in files:
            if role.compared:
                parts.setdefault(role.part, []).append(self._events(rows, role))
        for compared in parts.values():
            shown = reduce(_union, compared).join(commits, "g = n")
            rows = shown.select({**self._pass_through(*_EVENT), "w": "coalesce(w AND rewrites, false)"})
            settled, updated = self._knowing_ids(role for role, _ in files)._settled(rows)
            outputs.append(self._output(settled, commits, updated=updated))
        return reduce(_union, outputs)

    def _knowing_ids(self, roles: Iterable[Role]) -> Steps:
        """Return the steps without row ids if no row can have the id of a row that was removed."""
        if any(role.compared and role.inserts and role.old_ids for role in roles):
            return self
        return replace(self, lifetimes=replace(self.lifetimes, row_ids=False))

    def _label(self, column: dt.Field) -> str:
        return next(f"c{i}" for i, f in enumerate(self.columns) if f.id == column.id)

    def _pass_through(self, *labels: str) -> dict[str, str]:
        """Return the columns of files, and others by label, unchanged."""
        return {label: label for label in (*(f"c{i}" for i in range(len(self.columns))), *labels)}

    def _events(self, rows: R, role: Role) -> R:
        """Return the inserts and deletes of rows, also those in commits that show no changes."""
        added, removed = self._label(_ADDED), self._label(_REMOVED)
        if role.dies:
            died = f"least({removed}, CAST(({self._label(_DELETED_BY)} >> 32) - 1 AS INTEGER))"
            rows = rows.select({**self._pass_through(), "died": died})
        if not role.dies:
            return rows.select({**self._pass_through(), "e": "1", "g": added, "w": "true"})
        if not role.inserts:
            deleted = rows.where(f"died > {added}")
            return deleted.select({**self._pass_through(), "e": "0", "g": "died", "w": f"{removed} <= died"})
        visible = rows.where(f"died IS NULL OR died > {added}")
        both = visible.select({**self._pass_through("died"), "e": self.dialect.repeat.format(first="0", end="2")})
        commit = f"CASE WHEN e = 1 THEN {added} ELSE died END"
        return both.select({**self._pass_through("e"), "g": commit, "w": f"e = 1 OR {removed} <= died"})

    def _settled(self, rows: R) -> tuple[R, str]:
        """Return the changes that stay after equal rows were compared, and the condition of an update."""
        match self.lifetimes.mode:
            case ChangeMode.NET:
                return self._net(rows), "false"
            case ChangeMode.UPDATES:
                return self._paired(self._without_carried_rows(rows)), "u"
            case _:
                return self._without_carried_rows(rows), "false"

    def _without_carried_rows(self, rows: R) -> R:
        """Remove the deletes and inserts of rows that a rewrite of files carried over.

        As many inserts as deletes of equal rows are removed. If rows have ids, a row whose id is on both sides is
        compared only with the row of the same id.
        """
        if self._are_equal_rows_alike():
            rows = self._without_balanced_rows(rows)
            if not self.lifetimes.row_ids:
                return rows
        rows, keys = self._with_keys(rows, self.plan.schema.fields, "w")
        group = ["g", "w", *keys]
        if self.lifetimes.row_ids:
            row_id = self._label(_ROW_ID)
            over = f"OVER (PARTITION BY g, w, {row_id})"
            on_both_sides = f"CASE WHEN min(e) {over} < max(e) {over} THEN {row_id} END"
            rows = rows.select({**self._pass_through(*_EVENT, "w"), **{key: key for key in keys}, "i": on_both_sides})
            group.append("i")
        over = f"OVER (PARTITION BY {', '.join(group)}"
        counts = {
            "inserts": f"sum(e) {over})",
            "total": f"count(*) {over})",
            "place": f"row_number() {over} ORDER BY e)",
        }
        rows = rows.select({**self._pass_through(*_EVENT, "w"), **counts})
        # The deletes have the first places. The first rows of each side cancel.
        stays = "CASE WHEN e = 0 THEN place > inserts ELSE place > 2 * (total - inserts) END"
        return rows.where(f"NOT w OR {stays}").select(self._pass_through(*_EVENT))

    def _are_equal_rows_alike(self) -> bool:
        """Return whether equal rows, with equal row ids if they have ids, differ in no column that is needed.

        Nested floats prevent it: aggregates of nested values on DuckDB 2.0, such as any_value, turn -0.0 into 0.0.
        """
        alike = {f.id for f in (*self.plan.schema.fields, *_LIFETIMES)}
        if self.lifetimes.row_ids or _ROW_ID.id not in {f.id for f in output_columns(self.plan, self.lifetimes)}:
            alike.add(_ROW_ID.id)
        inner = dt.walk(tuple(child for f in self.plan.schema.fields for child in dt.children(f.type)))
        return all(f.id in alike for f in self.columns) and not any(isinstance(f.type, dt.FloatType) for _, f in inner)

    def _without_balanced_rows(self, rows: R) -> R:
        """Remove as many inserts as deletes of equal rows, with equal row ids if they have ids, of each rewrite.

        Only a row and the numbers of its inserts and deletes are kept for equal rows. On DuckDB, this takes a third of
        the time of windows.
        """
        rows, _ = self._with_keys(rows, self.plan.schema.fields, "w")
        groups = ["g", "w", *([self._label(_ROW_ID)] if self.lifetimes.row_ids else [])]
        values = {label: label for label in groups}
        aggregates = {"inserts": "count(*) FILTER (WHERE e = 1)", "total": "count(*)"}
        for f in self.plan.schema.fields:
            label = self._label(f)
            keys = self._keys(f)
            groups += keys
            match f.type:
                case _ if list(keys) == [label]:
                    values[label] = label
                case dt.FloatType():  # Spark groups -0.0 as 0.0
                    zero = f"CAST('-0.0' AS {'DOUBLE' if f.type.bits == 64 else 'FLOAT'})"
                    number, is_negative = keys
                    values[label] = f"CASE WHEN {is_negative} THEN {zero} ELSE {number} END"
                case dt.StringType() | dt.VariantType():
                    values[label] = self.dialect.text_of_key.format(key=next(iter(keys)))
                case _:
                    aggregates[label] = f"any_value({label})"
                    values[label] = label
        for i, f in enumerate(self.columns):  # no later step needs the other columns
            if f.id in {_ROW_ID.id, *(each.id for each in _LIFETIMES)}:
                values.setdefault(f"c{i}", "CAST(NULL AS BIGINT)")
        sums = rows.group(groups, aggregates).where("NOT w OR 2 * inserts <> total")
        inserts = "CASE WHEN w THEN greatest(2 * inserts - total, 0) ELSE inserts END"
        deletes = "CASE WHEN w THEN greatest(total - 2 * inserts, 0) ELSE total - inserts END"
        copies = self.dialect.repeat.format(first=f"-({deletes})", end=inserts)
        repeated = sums.select({**values, "copy": copies})
        kept = {label: label for label in values}
        return repeated.select({**kept, "e": "CASE WHEN copy < 0 THEN 0 ELSE 1 END"})

    def _net(self, rows: R) -> R:
        """Return the changes that stay after equal rows were canceled over the whole range.

        In the order of commits, deletes and inserts of equal rows match like parentheses.
        """
        rows, keys = self._with_keys(rows, self.plan.schema.fields)
        over = f"OVER (PARTITION BY {', '.join(keys)}"
        until = f"{over} ORDER BY g, e ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        kept = self._pass_through(*_EVENT)
        rows = rows.select({**kept, **{key: key for key in keys}, "level": f"sum(2 * e - 1) {until}"})
        # This order is the first one, also among the rows of one commit.
        ordered = f"{over} ORDER BY g, e, (2 * e - 1) * level"
        rest = f"{ordered} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)"
        rows = rows.select({**kept, "level": "level", "low": f"min(level) {rest}", "high": f"max(level) {rest}"})
        stays = "CASE WHEN e = 1 THEN level > 0 AND low = level ELSE level < 0 AND high = level END"
        return rows.where(stays).select(kept)

    def _paired(self, rows: R) -> R:
        """Add the column `u`, which is true for the two changes of an update: by row id, else by the keys."""
        kept, paired = self._pass_through(*_EVENT), "false"
        if self.lifetimes.row_ids:
            row_id = self._label(_ROW_ID)
            over = f"OVER (PARTITION BY g, {row_id})"
            paired = f"{row_id} IS NOT NULL AND count(*) {over} = 2 AND sum(e) {over} = 1"
        rows = rows.select({**kept, "u": paired})
        if not self.lifetimes.keys:
            return rows
        rows, keys = self._with_keys(rows, self.lifetimes.keys, "u")
        over = f"OVER (PARTITION BY {', '.join(['g', 'u', *keys])})"
        rows = rows.select({**kept, "u": "u", "inserts": f"sum(e) {over}", "total": f"count(*) {over}"})
        refused = (
            f"CASE WHEN total = 2 THEN true ELSE {self.dialect.fail(duplicate_keys_error(self.lifetimes.keys))} END"
        )
        paired = f"CASE WHEN u OR inserts = 0 OR inserts = total THEN u ELSE {refused} END"
        # The condition, which is always true, evaluates the error even if no column depends on `u`.
        return rows.select({**kept, "u": paired}).where("u IS NOT NULL")

    def _output(self, rows: R, commits: R, *, updated: str) -> R:
        """Return the columns of `output_columns`. `updated` is the condition under which a change is an update."""
        word = (
            f"CASE WHEN {updated} THEN CASE WHEN e = 1 THEN 'update_postimage' ELSE 'update_preimage' END "
            "WHEN e = 1 THEN 'insert' ELSE 'delete' END"
        )
        of_commits = {**_OF_COMMITS, "_change_type": word}
        columns = [
            of_commits[f.name] if f.id in _CHANGE_IDS else self._label(f)
            for f in output_columns(self.plan, self.lifetimes)
        ]
        in_commits = rows.join(commits, "g = n")
        # Rows without columns are counted.
        return in_commits.select({f"c{i}": expression for i, expression in enumerate(columns or ["NULL"])})

    def _keys(self, column: dt.Field) -> dict[str, str]:
        """Return the expressions by which a column is compared, by label. A label without expression is a column."""
        label = self._label(column)
        expressions = comparison_keys(label, column.type, self.dialect)
        return {
            label if expression == label else f"k{number}{label}": expression
            for number, expression in enumerate(expressions)
        }

    def _with_keys(self, rows: R, fields: Sequence[dt.Field], *labels: str) -> tuple[R, list[str]]:
        """Add the columns by which rows are compared, and return their labels. Other columns by label are kept."""
        keys = {label: expression for f in fields for label, expression in self._keys(f).items()}
        return rows.select({**self._pass_through(*_EVENT, *labels), **keys}), list(keys)


_EVENT = ("e", "g")
"""The columns of each change besides those of files."""


def _union(first: R, second: R) -> R:
    return first.union(second)
