"""The names a server answers to and the pages that may use it, whatever a request says twice or in another way."""

import pytest

from dragoman.gateway.access.guard import Guard
from dragoman.transports.remote.server.requests import RequestRefused

HOST, PAGE = b"Acp.Example:443", b"https://page.example"


def asked(*headers: tuple[bytes, bytes]) -> list[object]:
    """How a request with these headers is refused, and what is counted; nothing where it is not."""
    counted: list[object] = []
    guard = Guard(["acp.example:443"], ["https://page.example"], counted.append)
    try:
        guard.check({"headers": list(headers)})
    except RequestRefused as refused:
        return [refused.status, *counted]
    return counted


def test_the_name_of_the_server_in_any_case_and_its_page_are_let_in() -> None:
    assert asked((b"host", HOST)) == []
    assert asked((b"Host", HOST.lower()), (b"Origin", PAGE)) == []


@pytest.mark.parametrize(
    "hosts", [[], [HOST, HOST], [HOST, b"evil.example"], [b"evil.example", HOST], [b"evil.example"]]
)
def test_any_other_name_or_two_names_are_refused(hosts: list[bytes]) -> None:
    assert asked(*((b"host", host) for host in hosts)) == [421, "host"]


@pytest.mark.parametrize(
    "pages", [[PAGE, PAGE], [PAGE, b"null"], [b"null", PAGE], [b"null"], [PAGE.upper()], [b""]]
)
def test_any_other_page_or_two_pages_are_refused(pages: list[bytes]) -> None:
    assert asked((b"host", HOST), *((b"origin", page) for page in pages)) == [403, "origin"]


@pytest.mark.parametrize("host", [b"evil.example\x1b[31m", b"<script>", b"x" * 201])
def test_a_name_that_is_none_is_not_shown(host: bytes) -> None:
    with pytest.raises(RequestRefused) as refused:
        Guard(["acp.example"]).check({"headers": [(b"host", host)]})
    assert host.decode() not in str(refused.value)
    with pytest.raises(RequestRefused, match=r"--host other\.example"):
        Guard(["acp.example"]).check({"headers": [(b"host", b"other.example")]})
