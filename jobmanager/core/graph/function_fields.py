"""The fields of vertices that run a user's Python: the function and its output columns.

Only the form of a function's name is checked here; whether the function exists is checked with the
job's artifacts (`function_references`).
"""

import re

from jobmanager.core.graph import spark_ddl
from jobmanager.core.graph.document_fields import Fields

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def read_function(fields: Fields) -> str:
    """Read the reference in `function`."""
    text = fields.text("function")
    if text and not _REFERENCE.fullmatch(text):
        fields.fault("function", f"{text!r} is not of the form module:name")
    return text


def read_output(fields: Fields) -> str:
    """Read the columns in `output`, as Spark DDL."""
    text = fields.text("output")
    if text:
        try:
            spark_ddl.column_names(text)
        except spark_ddl.InvalidDdl as error:
            fields.fault("output", f"{text!r} is not a schema: {error}")
    return text
