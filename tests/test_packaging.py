"""The distribution: names, dependencies, and documents that agree with each other."""

import importlib
import pkgutil
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import harness
import harness.errors
from harness.cli.doctor import REQUIREMENTS, version_numbers
from harness.engines.duckdb import lowering
from harness.owners import other_owners

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]


def run(*arguments: str) -> str:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, timeout=60).stdout


def test_every_error_is_a_public_name():
    errors = {
        name
        for name, value in vars(harness.errors).items()
        if isinstance(value, type) and issubclass(value, harness.HarnessError)
    }
    assert errors <= set(harness.__all__)


WORKERS = ("_reader", "harness.dbt")
"""Ends of the names of scripts that run in interpreters of other engines, or in other tools."""


def test_public_names_survive_the_import_of_every_module():
    # A submodule replaces a package attribute with the same name: `harness.sql` must stay the function.
    for module in pkgutil.walk_packages(harness.__path__, "harness."):
        if module.name != "harness.__main__" and not module.name.endswith(WORKERS):
            importlib.import_module(module.name)
    modules = {name for name in harness.__all__ if isinstance(getattr(harness, name), type(sys))}
    assert modules == set()
    assert callable(harness.open_table)
    assert callable(harness.sql)


def test_python_m_harness():
    assert run("-m", "harness", "--version") == f"harness {harness.__version__}\n"


def test_doctor_knows_the_dependencies_and_their_bounds():
    declared = {}
    extras = PROJECT["optional-dependencies"]
    for text in [*PROJECT["dependencies"], *extras["spark"], *extras["suite"]]:
        name, at_least, below = re.match(r"([\w.-]+)>=([\d.]+)(?:,<([\d.]+))?", text).groups()
        declared[name] = (bound(at_least), None if below is None else bound(below))
    known = {r.name: (strip_zeros(r.at_least), r.below) for r in REQUIREMENTS}
    beyond_doctor = {"click", "rich"}  # `harness doctor` itself needs these
    absent = set() if sys.version_info < (3, 14) else {"backports.zstd"}
    assert known == {name: bounds for name, bounds in declared.items() if name not in beyond_doctor | absent}


def bound(text: str) -> tuple[int, ...]:
    return strip_zeros(version_numbers(text))


def strip_zeros(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return strip_zeros(numbers[:-1]) if numbers and numbers[-1] == 0 else numbers


def test_ci_runs_the_readmes_test_command():
    command = re.search(r'^test_command="(.*)"$', (ROOT / ".ci/run").read_text("utf-8"), re.MULTILINE).group(1)
    assert command in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("file", ["constraints.txt", "constraints-lowest.txt"])
def test_dependencies_of_tests_are_pinned_within_their_bounds(file):
    text = (ROOT / file).read_text("utf-8")
    assert "://" not in text  # names no registry
    assert f"/{file}" in PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    pins = [Requirement(line) for line in text.splitlines() if not line.startswith("#")]
    versions = {pin.name: str(pin.specifier).removeprefix("==") for pin in pins}
    extras = PROJECT["optional-dependencies"]
    dev = [text for text in extras["dev"] if not text.startswith("lakeharness[")]
    for wanted in map(
        Requirement, [*PROJECT["dependencies"], *extras["spark"], *extras["java"], *extras["suite"], *dev]
    ):
        pinned = versions[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(pinned), wanted
        if file == "constraints-lowest.txt":
            lowest = re.search(r">=([\d.]+)", str(wanted.specifier))[1]
            assert f"{pinned}.".startswith(f"{lowest}."), wanted


@pytest.mark.parametrize("repository", [None, "someone/harness"])
def test_links_name_the_repository_of_the_workflow_that_builds(monkeypatch, repository):
    monkeypatch.setitem(
        sys.modules, "hatchling.metadata.plugin.interface", SimpleNamespace(MetadataHookInterface=object)
    )
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    if repository is not None:
        monkeypatch.setenv("GITHUB_REPOSITORY", repository)
    links = runpy.run_path(str(ROOT / "hatch_build.py"))["ProjectLinks"]()
    links.root = str(ROOT)
    metadata = {}
    links.update(metadata)
    pages = "https://github.com/someone/harness/blob/main"
    urls = {
        "Source": "https://github.com/someone/harness",
        "Documentation": f"{pages}/docs/index.md",
        "Changelog": f"{pages}/CHANGELOG.md",
    }
    assert metadata["urls"] == ({} if repository is None else urls)
    assert {"readme", "urls"} <= set(PROJECT["dynamic"])
    written = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))
    built = re.findall(r"\]\(([^)]+)\)", metadata["readme"]["text"])
    assert built == (written if repository is None else [f"{pages}/{link}" for link in written])


def test_the_wheel_has_the_scenarios_and_nothing_else_of_the_fixtures():
    included = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    folders = {path for path in included if path.startswith("fixtures")}
    assert folders == {file.parent.as_posix() for file in scenario_roots()}
    assert all(included[folder] == f"harness/{folder}" for folder in folders)


def scenario_roots() -> set[Path]:
    """Return a file directly below each folder of `fixtures` that contains scenarios."""
    files = (path.relative_to(ROOT) for path in (ROOT / "fixtures").rglob("*.yaml"))
    return {Path(*file.parts[:2], "-") for file in files}


def test_the_duckdb_of_the_constraints_is_proven():
    (pin,) = re.findall(r"^duckdb==(.+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE)
    assert pin in lowering.POSITIONAL_JOIN_VERSIONS, "run tests/engines/test_duckdb_positional_join.py, then name it"


WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(["backports.zstd", "compression.zstd", "yaml"]))
from pathlib import Path
from harness.suite.scenarios.loading import parse
from harness.writing.iceberg.avro import AvroDocument
record = {"type": "record", "name": "r", "fields": []}
actions = {
    "parse": lambda: parse("title: a", "name"),
    "zstandard": lambda: AvroDocument(record, [{}], codec="zstandard").write(Path(sys.argv[1])),
    "deflate": lambda: AvroDocument(record, [{}], codec="deflate").write(Path(sys.argv[1])),
}
for action in actions.values():
    try:
        action()
    except Exception as error:
        print(type(error).__name__, error)
    else:
        print("done")
"""


def test_without_the_extra_suite_an_error_names_it(tmp_path):
    assert run("-c", WITHOUT, str(tmp_path / "a.avro")).splitlines() == [
        "RequestError Cannot read name: PyYAML is not installed; pip install 'lakeharness[suite]' [Request]",
        "RequestError Cannot write Avro codec 'zstandard': pip install 'lakeharness[suite]' [Request]",
        "done",
    ]


def other_distribution(directory: Path, files: dict[str, str], script: str | None) -> None:
    """Install a distribution with another name and files of the module `harness`, as pip leaves it behind."""
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, "utf-8")
    info = directory / "other_harness-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-harness\nVersion: 1.2\n", "utf-8")
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in files), "utf-8")
    if script is not None:
        (info / "entry_points.txt").write_text(f"[console_scripts]\n{script} = harness.cli:app\n", "utf-8")


def test_another_distribution_of_the_same_name_is_found(monkeypatch, tmp_path):
    files = {"harness/__init__.py": "", "harness/base.py": "", "elsewhere/x.py": ""}
    other_distribution(tmp_path, files, "harness")
    monkeypatch.syspath_prepend(tmp_path)
    owned = other_owners()["other-harness 1.2"]
    assert owned == "the command harness, harness/__init__.py and 1 more files"


@pytest.mark.parametrize(
    ("overwritten", "statement"),
    [
        ({"harness/__init__.py": "__all__ = ['run']\n"}, "import harness.cli"),
        ({"harness/errors.py": ""}, "import harness; harness.open_table"),
        ({"harness/table.py": "import harness.gone\n"}, "import harness; harness.open_table"),
    ],
    ids=["package", "errors", "table"],
)
def test_a_package_that_was_overwritten_names_the_other_distribution(tmp_path, overwritten, statement):
    shutil.copytree(ROOT / "harness", tmp_path / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    other_distribution(tmp_path, overwritten, None)
    script = f"import sys; sys.path.insert(0, sys.argv[1]); {statement}"
    command = [sys.executable, "-c", script, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: Cannot import harness: ")
    assert f"other-harness 1.2 owns {next(iter(overwritten))}: install lakeharness in a separate environment" in last
