"""The fields of vertices that run a user's Python: which function, and what comes out of it.

Of a function only the form of its name is read here; whether there is one is for whoever has
the job's artifacts.
"""

import re

from jobmanager.core.graph import spark_ddl
from jobmanager.core.graph.document_fields import Fields

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def read_function(fields: Fields) -> str:
    """The reference in `function`."""
    text = fields.text("function")
    if text and not _REFERENCE.fullmatch(text):
        fields.fault("function", f"{text!r} is not of the form module:name")
    return text


def read_output(fields: Fields) -> str:
    """The columns in `output`, as Spark DDL."""
    text = fields.text("output")
    if text:
        try:
            spark_ddl.column_names(text)
        except spark_ddl.InvalidDdl as error:
            fields.fault("output", f"{text!r} is not a schema: {error}")
    return text
