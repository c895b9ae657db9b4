"""The cookies of a server, kept for the life of a transport and across its reconnects, for sticky routing."""

from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie

MOST = 50  # cookies kept
LONGEST = 4096  # bytes of one cookie


class CookieJar:
    """The cookies of one endpoint; they are sent to no other address."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def store(self, set_cookies: Iterable[str]) -> None:
        """Apply `Set-Cookie` headers; an expired one removes its cookie."""
        for header in set_cookies:
            first, _, attributes = header.partition(";")
            name, equals, value = first.strip().partition("=")
            if not equals or not name or len(first) > LONGEST or any(ord(sign) < 32 for sign in first):
                continue
            if _has_run_out(attributes):
                self._values.pop(name, None)
            elif name in self._values or len(self._values) < MOST:
                self._values[name] = value

    @property
    def header(self) -> str | None:
        """The `Cookie` header to send; None when there is none."""
        return "; ".join(f"{name}={value}" for name, value in self._values.items()) or None


def _has_run_out(attributes: str) -> bool:
    try:
        morsel = SimpleCookie(f"x=x;{attributes}").get("x")
    except CookieError:
        return False
    if morsel is None:
        return False
    age = morsel["max-age"]
    return (age.lstrip("-").isdigit() and int(age) <= 0) or "1970" in morsel["expires"]
