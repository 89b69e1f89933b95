"""The tables of the page, and that the page has those of the newest run."""

from __future__ import annotations

from dataclasses import replace

import bench
import bench_page
import pytest
from bench_records import Failed, from_lines, newest_run
from test_bench_records import FIGURE, RECORD


def test_a_run_is_a_table_for_each_group():
    harness = replace(FIGURE, versions="y 2", wall_s=0.05, cpu_s=12.3, peak_mib=None, ratio=1.254)
    first = replace(RECORD, outcomes={"plain": FIGURE, "harness": harness})
    second = replace(RECORD, title="b", outcomes={"plain": FIGURE, "Polars": Failed(versions="z 3", reason="no")})
    other = replace(RECORD, group="Plans", title="c", outcomes={"floor": replace(FIGURE, ratio=17.4)})
    assert bench_page.figures([first, second, other]) == (
        "Commit `abc`, 2026-11-22, 2 cores, Linux x86_64, Python 3.11.7.\n"
        "\n"
        "### Scans\n"
        "\n"
        "|  | plain | harness | Polars |\n"
        "| --- | ---: | ---: | ---: |\n"
        "| a | **1.00**<br>2.00 s, CPU 4.00 s, 100 MiB | **1.25**<br>50 ms, CPU 12 s |  |\n"
        "| b | **1.00**<br>2.00 s, CPU 4.00 s, 100 MiB |  | fails |\n"
        "\n"
        "### Plans\n"
        "\n"
        "|  | floor |\n"
        "| --- | ---: |\n"
        "| c | **17**<br>2.00 s, CPU 4.00 s, 100 MiB |\n"
        "\n"
        "### Versions\n"
        "\n"
        "- Polars: z 3\n"
        "- floor: x 1\n"
        "- harness: y 2\n"
        "- plain: x 1\n"
    )


def test_tables_stand_between_the_marks():
    page = f"before\n{bench_page.START}old\n{bench_page.END}after\n"
    assert bench_page.put(page, "new\n") == f"before\n{bench_page.START}\nnew\n\n{bench_page.END}after\n"
    with pytest.raises(ValueError, match="it lacks the marks"):
        bench_page.put("before\nafter\n", "new\n")


def test_a_record_is_a_line_for_the_terminal():
    assert bench_page.line(RECORD) == "scan/a: plain 1.00 (2.00 s); harness fails: no such file"


def test_the_page_has_the_newest_figures_of_the_history():
    lines = bench.HISTORY.read_text("utf-8") if bench.HISTORY.is_file() else ""
    page = bench.PAGE.read_text("utf-8")
    assert bench_page.put(page, bench_page.figures(newest_run(from_lines(lines), bench.FULL.name))) == page
