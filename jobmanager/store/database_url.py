"""The address of a Postgres, as users write it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # a server that starts has other work to do before it needs a database
    from sqlalchemy.engine import URL

_UNREADABLE = (
    "it is not a valid URL: write postgresql://user:password@host:5432/name, with special "
    "characters of the password percent-encoded, such as %40 for @ and %2F for /"
)


def parse_url(text: str) -> "URL":
    """Parse any Postgres URL; psycopg is the driver whatever the URL says. The result hides its
    password when it is printed. Raises ValueError with a message that does not repeat the text.
    """
    from sqlalchemy.engine import make_url

    try:
        parsed = make_url(text)
    except Exception:
        # not as the cause either: the unreadable part may belong to the password
        raise ValueError(_UNREADABLE) from None
    if not parsed.drivername.startswith("postgres"):
        raise ValueError(f"{parsed.drivername!r} is not Postgres: give postgresql://user@host/name")
    if password := parsed.query.get("password"):
        parsed = parsed.difference_update_query(["password"]).set(password=str(password))
    return parsed.set(drivername="postgresql+psycopg")
