"""What the metadata of a saved model says about the classes that loading it would call.

Spark loads a model by importing the class that its metadata names, in Python or in the JVM, and
calling its `load`. A model that somebody else saved may name any; only Spark ML's own are taken.
"""

import json
import re
from typing import Any

_SPARK_ML = re.compile(r"(org\.apache\.spark|pyspark)\.ml(\.[a-z_]+)*\.[A-Z]\w*")
_RUNS_SQL = "SQLTransformer"
"""Its statement is SQL of whoever saved the model, and SQL can read files and run programs."""


def class_fault(text: str) -> str | None:
    """Why the classes that the text of a `metadata` names are not loaded; None: they may be."""
    try:
        document: Any = json.loads(text)
        named = document["class"]
    except (ValueError, KeyError, TypeError) as error:
        return f"its metadata cannot be read ({type(error).__name__}: {error})"
    if not isinstance(named, str) or not _SPARK_ML.fullmatch(named):
        return f"it names the class {named!r}, and only classes of Spark ML are loaded"
    if named.rpartition(".")[2] == _RUNS_SQL:
        return f"it has a {_RUNS_SQL}, which could run anything: write a sql vertex"
    return None
