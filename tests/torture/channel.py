"""T10, T18: a peer against a model of what it owes and is owed, whatever the channel does to the frames."""

from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule
from msgspec import Struct

from dragoman.errors import ConnectionClosed, InvalidParams, LocalProtocolError, Overloaded, RpcError
from dragoman.rpc import Call, Cancel, Method, Noise, Note, Peer, Reply, State

ASK = Method("ask", dict[str, Any], dict[str, Any])
TELL = Method("tell", dict[str, Any], is_request=False)
MOST = 8  # requests in the works at once; further ones are refused


class End:
    """A peer, what we know of it, and the frames on their way to it."""

    def __init__(self) -> None:
        self.peer = Peer(max_owed=MOST)
        self.peer.answer({"ask": ASK}, {"tell": TELL})
        self.arriving: list[bytes] = []
        self.wanted: dict[int, int] = {}  # our calls that may still be answered, and the number each carries
        self.owed: dict[int, int] = {}  # their calls we have not answered, and the number each carries
        self.settled: set[int] = set()  # ids that have had their one reply


class Channel(RuleBasedStateMachine):
    """Two peers, and between them a channel that loses, repeats and reorders whatever it likes."""

    calls = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.ends = (End(), End())
        self.number = 0

    def ship(self, side: int) -> None:
        self.ends[1 - side].arriving += self.ends[side].peer.take()

    @rule(target=calls, side=st.integers(0, 1))
    def ask(self, side: int) -> tuple[int, int]:
        end, self.number = self.ends[side], self.number + 1
        id = end.peer.call(ASK, {"number": self.number})
        assert id not in end.wanted
        assert id not in end.settled
        end.wanted[id] = self.number
        self.ship(side)
        return side, id

    @rule(side=st.integers(0, 1))
    def tell(self, side: int) -> None:
        self.ends[side].peer.note(TELL, {})
        self.ship(side)

    @rule(call=consumes(calls))
    def cancel(self, call: tuple[int, int]) -> None:
        side, id = call
        was_wanted = self.ends[side].wanted.pop(id, None) is not None
        self.ends[side].peer.cancel(id)
        self._expect_cancel(side, was_wanted)

    @rule(call=calls)
    def hurry(self, call: tuple[int, int]) -> None:
        side, id = call
        self.ends[side].peer.hurry(id)
        self._expect_cancel(side, id in self.ends[side].wanted)

    def _expect_cancel(self, side: int, is_due: bool) -> None:
        frames = self.ends[side].peer.take()
        assert [msgspec.json.decode(frame)["method"] for frame in frames] == ["$/cancel_request"] * is_due
        self.ends[1 - side].arriving += frames

    @precondition(lambda self: any(end.arriving for end in self.ends))
    @rule(data=st.data(), fate=st.sampled_from(["arrives", "arrives", "arrives", "twice", "lost"]))
    def deliver(self, data: st.DataObject, fate: str) -> None:
        side = data.draw(st.sampled_from([side for side in (0, 1) if self.ends[side].arriving]))
        arriving = self.ends[side].arriving
        frame = arriving.pop(data.draw(st.integers(0, min(len(arriving) - 1, 5))))
        for _ in range({"lost": 0, "arrives": 1, "twice": 2}[fate]):
            self._arrive(self.ends[side], frame)
            self.ship(side)

    def _arrive(self, end: End, frame: bytes) -> None:
        message = msgspec.json.decode(frame)
        match end.peer.receive(frame):
            case Call(key=key, id=id, params=params):
                assert key not in end.owed
                assert id == message["id"]
                end.owed[key] = params["number"]
            case Reply(id=id, result=answer, error=error):
                number = end.wanted.pop(id)
                if not isinstance(error, Overloaded):
                    assert number == (answer["number"] if answer else error.data["number"])
                assert id not in end.settled
                end.settled.add(id)
            case Cancel(key=key):
                assert key in end.owed
            case Note(method=method):
                assert method is TELL
            case Noise():
                assert "method" not in message or len(end.owed) == MOST
                assert message.get("id") not in end.wanted or "method" in message
            case None:
                assert message["method"] == "$/cancel_request"

    @precondition(lambda self: any(end.owed for end in self.ends))
    @rule(data=st.data(), fails=st.booleans())
    def answer(self, data: st.DataObject, fails: bool) -> None:
        side = data.draw(st.sampled_from([side for side in (0, 1) if self.ends[side].owed]))
        end = self.ends[side]
        key = data.draw(st.sampled_from(sorted(end.owed)))
        number = end.owed.pop(key)
        for _ in range(2):  # the second answer is nothing
            if fails:
                end.peer.fail(key, InvalidParams(data={"number": number}))
            else:
                end.peer.reply(key, {"number": number})
        frames = end.peer.take()
        assert len(frames) == 1
        self.ends[1 - side].arriving += frames

    @invariant()
    def nothing_is_forgotten_or_made_up(self) -> None:
        for end in self.ends:
            assert set(end.peer._pending) == set(end.wanted)
            assert set(end.peer._owed) == set(end.owed)

    def teardown(self) -> None:
        why = ConnectionClosed("gone")
        for end in self.ends:
            replies = end.peer.lose(why)
            assert {reply.id for reply in replies} == set(end.wanted)
            assert all(reply.error is why for reply in replies)
            assert end.peer.lose(why) == []
            end.peer.close()
            for key in end.owed:
                end.peer.reply(key, {})
            assert end.peer.take() == []


class Opening(Struct):
    version: int


OPEN = Method("open", Opening, dict[str, Any], opens=True)
CANCEL = "$/cancel_request"


class Lifecycle(RuleBasedStateMachine):
    """A peer that has to be opened first, against a model of when it was."""

    def __init__(self) -> None:
        super().__init__()
        self.peer = Peer()
        self.peer.answer({"open": OPEN, "ask": ASK}, {"tell": TELL})
        self.state = "new"
        self.opening: int | None = None  # the key of the request that is to open it
        self.owed: list[int] = []
        self.id = 0

    def send(self, method: str, params: Any, *, note: bool = False) -> tuple[Any, list[Any]]:
        self.id += 1
        message = {"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}
        if note:
            del message["id"]
        event = self.peer.receive(msgspec.json.encode(message))
        return event, [msgspec.json.decode(frame) for frame in self.peer.take()]

    def expect(self, sent: tuple[Any, list[Any]], code: int | None) -> None:
        event, answers = sent
        if code is None:
            assert isinstance(event, Call)
            assert answers == []
        else:
            assert [(a["id"], a["error"]["code"]) for a in answers] == [(self.id, code)]

    @precondition(lambda self: self.state != "closed")
    @rule()
    def open(self) -> None:
        free = self.state == "new" and self.opening is None
        sent = self.send("open", {"version": 1})
        self.expect(sent, None if free else -32600)
        if free:
            self.opening = sent[0].key

    @precondition(lambda self: self.state != "closed")
    @rule(version=st.sampled_from([None, "1", 1.5, True, [], {}]))
    def open_wrongly(self, version: Any) -> None:
        free = self.state == "new" and self.opening is None
        self.expect(self.send("open", {"version": version}), -32602 if free else -32600)

    @precondition(lambda self: self.opening is not None)
    @rule(fails=st.booleans())
    def answer_the_opening(self, fails: bool) -> None:
        assert self.opening is not None
        if fails:
            self.peer.fail(self.opening, RpcError("no"))
        else:
            self.peer.reply(self.opening, {})
            self.state = "open"
        self.opening = None
        assert len(self.peer.take()) == 1

    @precondition(lambda self: self.state != "closed")
    @rule(method=st.sampled_from(["ask", "nobody/knows", "_x", ""]))
    def ask(self, method: str) -> None:
        sent = self.send(method, {})
        if self.state == "new":
            self.expect(sent, -32600)
        elif method == "ask":
            self.expect(sent, None)
            self.owed.append(sent[0].key)
        else:
            self.expect(sent, -32601)

    @precondition(lambda self: self.state != "closed")
    @rule(method=st.sampled_from(["tell", "nobody/knows", "$/x", "open", CANCEL]))
    def tell(self, method: str) -> None:
        event, answers = self.send(method, {"requestId": -1}, note=True)
        assert answers == []
        assert isinstance(event, Note) == (method == "tell" and self.state == "open")

    @precondition(lambda self: self.state != "closed")
    @rule(outcome=st.sampled_from([{"result": {}}, {"error": {"code": 1, "message": "x"}}]))
    def respond_to_nothing(self, outcome: dict[str, Any]) -> None:
        event = self.peer.receive(msgspec.json.encode({"jsonrpc": "2.0", "id": 1, **outcome}))
        assert not isinstance(event, Reply)
        assert self.peer.take() == []

    @precondition(lambda self: self.owed)
    @rule()
    def answer(self) -> None:
        self.peer.reply(self.owed.pop(0), {})
        assert len(self.peer.take()) == 1

    @precondition(lambda self: self.state == "open")
    @rule()
    def close(self) -> None:
        self.peer.close()
        self.state = "closed"
        self.owed.clear()

    @precondition(lambda self: self.state == "closed")
    @rule()
    def nothing_can_be_sent(self) -> None:
        for send in (lambda: self.peer.call(ASK, {}), lambda: self.peer.note(TELL, {})):
            try:
                send()
            except LocalProtocolError:
                continue
            raise AssertionError("a closed peer sent something")
        assert self.peer.take() == []

    @invariant()
    def the_state_is_the_models(self) -> None:
        assert self.peer.state is {"new": State.NEW, "open": State.OPEN, "closed": State.CLOSED}[self.state]


def run_settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
