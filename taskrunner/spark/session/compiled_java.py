"""Small Java classes that Spark's own Java compiler (Janino) compiles in the driver's JVM.

They are for loops that would be too slow from Python, with a call to the JVM for each record, and
for parts of Spark that have no way from Python. The sources are files of this package.
"""

from collections.abc import Mapping
from importlib.resources import files as resources
from threading import Lock
from typing import Any

from pyspark.sql import SparkSession

BATCH_FILES = "BatchFiles"
KAFKA_CALLS = "KafkaCalls"
_compiled: dict[str, tuple[Any, Any]] = {}
"""Name of a class to the gateway of the JVM that it was compiled in, and an object of the class."""
_compiling = Lock()


def java_object(spark: SparkSession, name: str) -> Any:
    """An object of the class, which is compiled once in a JVM: Py4J takes classes of one name for
    the same class. Raises an error of Py4J if this Spark lacks something that the class uses.
    """
    gateway: Any = spark.sparkContext._gateway
    with _compiling:
        known = _compiled.get(name)
        if known is None or known[0] is not gateway:
            known = _compiled[name] = (gateway, _compile(gateway, name))
        return known[1]


def java_map(jvm: Any, values: Mapping[str, str]) -> Any:
    """The values as a map of Java's."""
    made = jvm.java.util.HashMap()
    for name, value in values.items():
        made.put(name, value)
    return made


def _compile(gateway: Any, name: str) -> Any:
    jvm: Any = gateway.jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(resources(__package__).joinpath(f"{name}.java").read_text(encoding="utf-8"))
    made = compiler.getClassLoader().loadClass(name)
    constructor = made.getConstructor(gateway.new_array(jvm.java.lang.Class, 0))
    return constructor.newInstance(gateway.new_array(jvm.java.lang.Object, 0))
