"""Behind a reverse proxy: failures are counted where they come from, and only one's own proxies are believed."""

import asyncio
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import PATIENCE

from dragoman.errors import Error
from dragoman.gateway.access.proxies import TrustedProxies
from dragoman.transports.remote.server.proxied import SIGNATURE, ProxyHeaderError, read_proxy_header

from .house import House, hosting
from .test_admission import ask

WRONG = "Authorization: Bearer nonsense"


async def guesses(house: House, count: int, *headers: str) -> list[int]:
    own = f"Host: localhost:{house.server.port}"
    return [await ask(house.server.port, own, WRONG, *headers, path="/acp") for _ in range(count)]


async def test_behind_a_trusted_proxy_guessing_slows_down_only_the_address_it_comes_from(tmp_path: Path) -> None:
    async with hosting(tmp_path, proxies=("127.0.0.0/8", "10.0.0.0/8")) as house:
        one, through_two = "X-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 9.9.9.9, 203.0.113.2, 10.1.2.3"
        assert await guesses(house, 21, one) == [401] * 20 + [429]
        assert await guesses(house, 21, through_two) == [401] * 20 + [429]
        assert await guesses(house, 1, "X-Forwarded-For: 203.0.113.3") == [401]
        assert await guesses(house, 1, "X-Forwarded-For: 9.9.9.9") == [401]  # of whom only the client has spoken


async def test_nobody_elses_word_counts_for_where_a_request_comes_from(tmp_path: Path) -> None:
    async with hosting(tmp_path, proxies=("10.0.0.0/8",)) as house:
        codes = [(await guesses(house, 1, f"X-Forwarded-For: 203.0.113.{number}"))[0] for number in range(21)]
        assert codes == [401] * 20 + [429]


@pytest.mark.parametrize("version", [1, 2])
async def test_the_proxy_protocol_says_whose_a_connection_is(tmp_path: Path, version: int) -> None:
    async with hosting(tmp_path, proxies=("127.0.0.1",), proxy_protocol=True) as house:
        statuses = [await behind_proxy(house, header(version, "203.0.113.1")) for _ in range(21)]
        assert statuses == [401] * 20 + [429]
        assert await behind_proxy(house, header(version, "203.0.113.2")) == 401
        assert await behind_proxy(house, b"") == 0  # without a header it is closed


def header(version: int, host: str) -> bytes:
    if version == 1:
        return f"PROXY TCP4 {host} 127.0.0.1 40000 443\r\n".encode()
    addresses = bytes(map(int, host.split("."))) + bytes([127, 0, 0, 1]) + struct.pack("!HH", 40000, 443)
    return SIGNATURE + struct.pack("!BBH", 0x21, 0x11, len(addresses)) + addresses


async def behind_proxy(house: House, begin: bytes) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port)
    try:
        for piece in (begin[:5], begin[5:]):  # it may come in pieces
            writer.write(piece)
            await writer.drain()
        writer.write(f"GET /acp HTTP/1.1\r\nHost: localhost:{house.server.port}\r\n{WRONG}\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE):
            try:
                answer = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionResetError):
                return 0
        return int(answer.split()[1])
    finally:
        writer.close()


@given(
    st.binary(max_size=200), st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE, SIGNATURE + b"\x21\x11"])
)
def test_any_bytes_are_a_header_or_refused_or_wanted_more_of(data: bytes, begin: bytes) -> None:
    try:
        found = read_proxy_header(begin + data)
    except ProxyHeaderError:
        return
    size = found.size if found else 0  # none of one that is not whole
    assert size in range(len(begin + data) + 1)


def test_a_network_that_is_none_is_refused_in_words() -> None:
    with pytest.raises(Error, match="a trusted proxy is an address or a network"):
        TrustedProxies(["example.com"])
