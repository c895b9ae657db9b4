"""The texts of remote wires, piece by piece: events, withdrawals, headers and names."""

import json

import pytest

from dragoman.errors import AgentStartError
from dragoman.framing import Oversize
from dragoman.transports.remote.addresses import read_url
from dragoman.transports.remote.cookies import LONGEST, CookieJar
from dragoman.transports.remote.replay import Log
from dragoman.transports.remote.routing import Withdrawal, head_of, withdrawal
from dragoman.transports.remote.sse import Event, EventReader, write_events


def events(*pieces: bytes) -> list[Event]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)]


def test_a_line_end_of_two_characters_is_one_wherever_it_is_cut() -> None:
    whole = b"data: one\r\ndata: two\r\n\r\ndata: three\r\n\r\n"
    expected = [Event(b"one\ntwo"), Event(b"three")]
    assert events(whole) == expected
    for cut in range(1, len(whole)):
        assert events(whole[:cut], whole[cut:]) == expected, cut


def test_an_event_has_neither_the_id_nor_the_kind_of_the_one_before() -> None:
    assert events(b"id: 5\nevent: end\ndata: a\n\ndata: b\n\n") == [Event(b"a", b"5", b"end"), Event(b"b")]
    assert events(b"id: 5\n\ndata: b\n\n") == [Event(b"b")]


def test_lines_that_belong_to_no_event_are_counted() -> None:
    reader = EventReader()
    assert reader.feed(b": comment\nodd: field\n\nretry: 5\n") == []
    assert reader.idle == 4


def test_a_frame_of_several_lines_is_one_event() -> None:
    (event,) = events(write_events([b'{\n"a":\r\n1}'], 7))
    assert (event.id, json.loads(bytes(event.data)) if isinstance(event.data, bytes) else None) == (b"7", {"a": 1})


def request(id: int, method: str, session: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": {"sessionId": session}}).encode()


def test_a_cancel_withdraws_the_prompts_of_its_session_and_nothing_else() -> None:
    cancel = withdrawal(b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}')
    assert cancel == Withdrawal(session="s")
    assert cancel.covers(head_of(request(1, "session/prompt", "s")))
    assert not cancel.covers(head_of(request(1, "session/prompt", "t")))
    assert not cancel.covers(head_of(request(1, "session/set_mode", "s")))
    assert not cancel.covers(head_of(b'{"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"s"}}'))


def test_a_cancelled_request_is_withdrawn_and_an_answer_under_its_id_is_not() -> None:
    cancel = withdrawal(b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}')
    assert cancel == Withdrawal(request=b"7")
    assert cancel.covers(head_of(request(7, "session/new", "s")))
    assert not cancel.covers(head_of(b'{"jsonrpc":"2.0","id":7,"result":{}}'))
    assert not cancel.covers(head_of(request(8, "session/new", "s")))


def test_the_id_of_a_message_that_is_too_long_is_read_off_its_ends() -> None:
    head = b'{"jsonrpc":"2.0","id":9,"method":"session/prompt","params":{"text":"xxx'
    found = head_of(Oversize(head, 20_000_000, b'xxx"}}'))
    assert (found.id, found.method) == (b"9", "session/prompt")


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\n", "ä"])
def test_a_header_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(AgentStartError, match="not a header name"):
        read_url("https://example.com", {name: "x"})


@pytest.mark.parametrize("host", ["exa,mple.com", "a!b.com", "a%b.com"])
def test_a_host_that_is_no_name_is_not_looked_up(host: str) -> None:
    with pytest.raises(AgentStartError, match="not a host name"):
        read_url(f"wss://{host}/acp")


def test_a_cookie_of_any_length_is_not_carried() -> None:
    jar = CookieJar()
    jar.store([f"a={'x' * LONGEST}", f"b={'x' * (LONGEST - 2)}"])
    assert jar.header == f"b={'x' * (LONGEST - 2)}"


def test_a_frame_that_takes_the_place_of_another_has_its_number() -> None:
    log = Log()
    log.append([b"one", b"two", b"three"])
    log.replace(b"two", b"2")
    assert (log.frames(), log.last, log.size) == ([b"one", b"2", b"three"], 3, 9)
