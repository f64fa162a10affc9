"""Which texts give a password away, and how they are shown instead."""

from collections.abc import Iterable
from urllib.parse import quote, quote_plus

SHOWN = "***"
_LONG = 12
"""A password of so many characters is no word of any other text. A shorter one, such as the
name of the program, is looked for only where a password stands."""


class Secrets:
    """Passwords that must be in no log, no message and no other process."""

    def __init__(self, passwords: Iterable[str | None] = (), *, always_from: int = _LONG) -> None:
        """A password with `always_from` characters is looked for in any place."""
        self._always_from = always_from
        self._passwords: list[str] = []
        for one in passwords:
            self.learn(one)

    def learn(self, password: str | None) -> None:
        """None and the empty text are no passwords."""
        if password:
            self._passwords.append(password)

    def hidden(self, text: str) -> str:
        """The text without any of the passwords."""
        if text in self._passwords:
            return SHOWN
        for before, password, after in self._forms():
            text = text.replace(before + password + after, before + SHOWN + after)
        return text

    def is_in(self, text: str) -> bool:
        """Whether who reads the text learns one of the passwords."""
        return self.hidden(text) != text

    def _forms(self) -> Iterable[tuple[str, str, str]]:
        """What stands before a password, the password as it is written there, what follows."""
        for password in self._passwords:
            for written in {password, quote(password, safe=""), quote_plus(password)}:
                if len(password) >= self._always_from:
                    yield "", written, ""
                else:
                    yield ":", written, "@"
                    yield "password=", written, ""
