"""The engine's Java classes, compiled in the driver with the compiler that Spark includes.

Spark's extension points for files are JVM interfaces, and a prebuilt jar would tie harness to one Spark version. So the
sources are part of this package. Janino, with which every Spark compiles its generated code, compiles them once per
driver in a fraction of a second. The driver's class loader gets the resulting jar once, and each context ships it to
its executors.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext

from harness.engines.spark.java_runtime import usable_java
from harness.errors import EngineError, UnsupportedError
from harness.storage.threads import Lock

ENGINE = "harness.engines.spark"
_EXTENSIBLE = frozenset(
    {"org.apache.spark.util.MutableURLClassLoader", "org.apache.spark.util.ChildFirstURLClassLoader"}
)
# by gateway, because one JVM can serve several contexts
_JARS: WeakKeyDictionary[Any, dict[str, Path]] = WeakKeyDictionary()
_SHIPPED: WeakKeyDictionary[SparkContext, set[str]] = WeakKeyDictionary()
_LOCK = Lock()


def load_classes(context: SparkContext, package: str = ENGINE) -> None:
    """Make the Java classes of a Python package available to the driver and the executors of a context.

    A second call for the same context and package does nothing.

    Args:
        context: The context.
        package: A package with Java sources in its directory `java`. They may use the engine's classes, if these are
            loaded.

    Raises:
        EngineError: This Spark cannot compile the sources.
        UnsupportedError: The driver's class loader does not accept additional classes.
    """
    with _LOCK:
        shipped = _SHIPPED.setdefault(context, set())
        if package in shipped:
            return
        gateway: Any = context._gateway
        jars = _JARS.setdefault(gateway, {})
        if package not in jars:
            jars[package] = _jar(_compile(gateway, package, _loader(gateway.jvm)))
            _extend_driver(gateway.jvm, jars[package])
        context._jsc.sc().addJar(jars[package].as_uri())
        shipped.add(package)


@cache
def compile_client_jar() -> Path:
    """Compile the engine's classes for the installed Spark in a separate JVM. A Spark Connect client has no JVM.

    Returns:
        The path of the jar.

    Raises:
        RequestError: There is no usable Java.
        EngineError: The JVM does not start or cannot compile the classes. A PySpark without jars has no compiler.
    """
    jars = _own_jars() / "*"
    java = usable_java().path
    try:
        port, token, process = launch_gateway(
            classpath=str(jars), java_path=java, enable_auth=True, die_on_exit=True, return_proc=True
        )
    except (Py4JError, OSError, ValueError) as error:
        raise EngineError(f"Cannot start {java} to compile the Java classes of harness: {error}") from error
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        loader = gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        return _jar(_compile(gateway, ENGINE, loader))
    except Py4JError as error:
        raise EngineError(f"Cannot compile the Java classes of harness with {java}: {error}") from error
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait()


def _own_jars() -> Path:
    """Return the jars of the client's own Spark version.

    Without jars, launching a gateway would end the Python process. SPARK_HOME may name another version.
    """
    package = Path(pyspark.__file__).parent
    spark_home = os.environ.get("SPARK_HOME")
    homes = [package, package / "spark-distribution", package.parents[1], *([Path(spark_home)] if spark_home else [])]
    for home in homes:
        if next(home.glob(f"jars/spark-catalyst_*-{pyspark.__version__}.jar"), None) is not None:
            return home / "jars"
    raise EngineError(f"Cannot compile the Java classes of harness: there are no jars of Spark {pyspark.__version__}")


def add_to_driver(context: SparkContext, entries: Mapping[str, bytes]) -> None:
    """Add files to the driver's class path, by their names in a jar, for example `META-INF/services/…`.

    Raises:
        UnsupportedError: The driver's class loader does not accept additional classes.
    """
    gateway: Any = context._gateway
    _extend_driver(gateway.jvm, _jar(entries))


def class_named(context: SparkContext, name: str) -> Any:
    """Return the Java class `harness.spark.<name>`. Its package must have been loaded with `load_classes`."""
    gateway: Any = context._gateway
    return _loader(gateway.jvm).loadClass(f"harness.spark.{name}")


def sources(package: str = ENGINE) -> dict[str, str]:
    """Return the Java sources of a Python package by file name, sorted."""
    entries = [entry for entry in files(package).joinpath("java").iterdir() if entry.name.endswith(".java")]
    return {entry.name: entry.read_text(encoding="utf-8") for entry in sorted(entries, key=lambda entry: entry.name)}


def _compile(gateway: Any, package: str, loader: Any) -> dict[str, bytes]:
    """Compile the Java sources of a package, which may refer to each other. Return bytecode by class file name.

    Args:
        gateway: The gateway to the JVM.
        package: The Python package with the sources.
        loader: The class loader of Spark's classes.
    """
    janino, resources = gateway.jvm.org.codehaus.janino, gateway.jvm.org.codehaus.commons.compiler.util.resource
    texts = sources(package)
    java_sources = gateway.new_array(resources.Resource, len(texts))
    for place, (name, text) in enumerate(texts.items()):
        java_sources[place] = resources.StringResource(name, text)
    class_files = resources.MapResourceCreator()
    compiler = janino.Compiler()
    compiler.setIClassLoader(janino.ClassLoaderIClassLoader(loader))
    compiler.setClassFileCreator(class_files)
    try:
        compiler.compile(java_sources)
    except Py4JJavaError as error:
        raise EngineError(
            f"Cannot compile the Java classes of harness on this Spark: {error.java_exception.getMessage()}"
        ) from error
    return {str(name): bytes(code) for name, code in class_files.getMap().items()}


def _jar(entries: Mapping[str, bytes]) -> Path:
    directory = Path(tempfile.mkdtemp(prefix="harness-spark-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    digest = hashlib.sha256(b"".join(entries[name] for name in sorted(entries))).hexdigest()
    jar = directory / f"harness-spark-{digest[:16]}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for name, code in entries.items():
            archive.writestr(name, code)
    return jar


def _extend_driver(jvm: Any, jar: Path) -> None:
    _loader(jvm).addURL(jvm.java.net.URL(jar.as_uri()))


def _loader(jvm: Any) -> Any:
    """Return the class loader that spark-submit gave the driver.

    It is the parent of the class loaders of sessions and, in local mode, of executors.
    """
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    extensible = None
    while loader is not None:
        if loader.getClass().getName() in _EXTENSIBLE:
            extensible = loader
        loader = loader.getParent()
    if extensible is None:
        raise UnsupportedError(
            "Cannot add the classes that read planned files to Spark's driver: its class loader is not supported; "
            "start the driver with spark-submit or from Python"
        )
    return extensible
