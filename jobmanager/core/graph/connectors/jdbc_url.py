"""A JDBC URL, as far as Headgate has to understand it: which database, where, with what."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from jobmanager.core.graph.document_fields import Fields

_URL = re.compile(r"jdbc:([A-Za-z][\w+.-]*):(.*)", re.DOTALL)
_NETWORK = re.compile(r"(?:[a-z]+:)*@?//([^/?;]+)")
_SECRET = re.compile(r"(?i)[?&;](password|pwd|passwd)=(?!\$\{secret:)")
_HARMLESS = frozenset(
    """ssl sslmode sslrootcert currentschema applicationname connecttimeout sockettimeout
    logintimeout tcpkeepalive user password databasename encrypt trustservercertificate
    """.split()  # noqa: SIM905
)
"""Parameters of URLs that make no driver run code, in lower case."""
_TUNING = frozenset(
    """querytimeout fetchsize batchsize isolationlevel sessioninitstatement pushdownpredicate
    pushdownaggregate pushdownlimit pushdownoffset pushdowntablesample prefertimestampntz hint
    """.split()  # noqa: SIM905
)
"""Spark's own options of JDBC, in lower case: they change how, not where."""
PACKAGES: Mapping[str, str] = {"postgresql": "jdbc"}
"""The database to the connector package with its driver. Other databases: `jdbc-<database>`."""
_SHIPPED = frozenset(["derby"])
"""Databases whose driver comes with Spark."""


@dataclass(frozen=True, slots=True)
class JdbcUrl:
    text: str

    @property
    def database(self) -> str:
        """The kind of database: `postgresql`."""
        found = _URL.fullmatch(self.text)
        return found[1].lower() if found else ""

    @property
    def packages(self) -> tuple[str, ...]:
        if not self.database or self.database in _SHIPPED:
            return ()
        return (PACKAGES.get(self.database, f"jdbc-{self.database}"),)

    @property
    def place(self) -> str:
        """How a rule about paths names the database: `jdbc://host:5432/shop`, or the file of an
        embedded database. Without parameters, and without a user.
        """
        found = _URL.fullmatch(self.text)
        rest = re.split(r"[?;]", found[2] if found else self.text, maxsplit=1)[0]
        network = _NETWORK.match(rest)
        if network is None:
            path = rest.removeprefix("file:")
            return path if path.startswith("/") else f"jdbc://{self.database}/{rest}"
        host = network[1].rpartition("@")[2]
        return f"jdbc://{host}{rest[network.end() :]}"

    def code_in(self) -> str | None:
        """Why the URL alone could make a driver run code."""
        if self.database != "postgresql":
            return f"reads or writes by the driver of {self.database}, whose URLs may run code"
        names = re.findall(r"[?&;]([^=&;]+)=", self.text)
        unknown = [one for one in names if one.lower() not in _HARMLESS]
        return f"has the parameter {unknown[0]!r} in its JDBC URL" if unknown else None


def read_url(fields: Fields) -> JdbcUrl:
    url = JdbcUrl(fields.text("url"))
    if url.text and not url.database:
        fields.fault(
            "url", "this is not a JDBC URL, such as jdbc:postgresql://db.example.org:5432/shop"
        )
    if _SECRET.search(url.text):
        fields.fault(
            "url",
            "a password in a URL is stored and shown: use the field password with a reference "
            "such as ${secret:shop_password}",
        )
    return url


def is_tuning_option(option: str) -> bool:
    return option.lower() in _TUNING
