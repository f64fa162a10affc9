"""Long texts in rows that are shown to a person."""

from typing import Any

MOST_CHARACTERS = 2000


def cut(value: Any) -> Any:
    """The value of a column, as JSON, with long texts cut off, however deep they are."""
    match value:
        case str() if len(value) > MOST_CHARACTERS:
            return f"{value[:MOST_CHARACTERS]}… ({len(value):,} characters)"
        case list():
            return [cut(one) for one in value]
        case dict():
            return {name: cut(one) for name, one in value.items()}
        case _:
            return value
