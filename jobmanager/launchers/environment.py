"""The environment of the processes that run users' code: the server's, without its secrets.

Runners and the inspector hand their environment on to Spark's JVM and to Python workers, where
any code of a user can read it. So what only the server needs is taken out:

* `HEADGATE_*`: the server's settings, such as the URL of its database, and tokens of clients;
* `PG*` and `CREDENTIALS_DIRECTORY`: what libpq and systemd give a server to sign in with;
* `OPENLINEAGE_*` and `OTEL_EXPORTER_*`: where the server sends lineage events and traces;
* whatever holds the password of the server's database, under any name.

All else stays. Jobs need it: `JAVA_HOME`, `AWS_*` and the like for their storage.

A runner also gets the secrets that jobs may refer to, `HEADGATE_SECRET_*`. It takes them out of its
environment before it starts another process.
"""

from collections.abc import Mapping

from jobmanager.core.redaction import Secrets
from jobmanager.core.secret_references import VARIABLE

_PREFIXES = ("HEADGATE_", "PG", "OPENLINEAGE_", "OTEL_EXPORTER_")
_NAMES = frozenset(["CREDENTIALS_DIRECTORY"])


def without_secrets(environment: Mapping[str, str], secrets: Secrets) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(_PREFIXES) and name not in _NAMES and not secrets.is_in(value)
    }


def secrets_of_jobs(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(VARIABLE)}
