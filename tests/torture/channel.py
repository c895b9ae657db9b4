"""T10, T18: a peer against a model of what it owes and is owed, whatever the channel does to the frames."""

from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import Struct

from dragoman.errors import ConnectionClosed, InvalidParams, LocalProtocolError, Overloaded, RpcError
from dragoman.events import Call, Cancel, Method, Noise, Note, Reply
from dragoman.rpc import Peer, State

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


MOVES = ("ask",) * 3 + ("tell",) + ("deliver",) * 6 + ("answer",) * 3 + ("cancel", "hurry", "lose", "repeat")


class Channel(RuleBasedStateMachine):
    """Two peers, and between them a channel that loses, repeats and reorders whatever it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = (End(), End())
        self.number = 0

    @rule(
        side=st.integers(0, 1),
        moves=st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 63)), min_size=20, max_size=40),
    )
    def go_on(self, side: int, moves: list[tuple[str, int]]) -> None:
        """Many moves in one: rules of their own would too often be left out, and little ever be answered."""
        for move, number in moves:
            getattr(self, move)(side if number % 4 else 1 - side, number)
            self.ends[1].arriving += self.ends[0].peer.take()
            self.ends[0].arriving += self.ends[1].peer.take()
            self.check()

    def ask(self, side: int, _: int) -> None:
        end, self.number = self.ends[side], self.number + 1
        id = end.peer.call(ASK, {"number": self.number})
        assert id not in end.wanted
        assert id not in end.settled
        end.wanted[id] = self.number

    def tell(self, side: int, _: int) -> None:
        self.ends[side].peer.note(TELL, {})

    def cancel(self, side: int, number: int) -> None:
        end, id = self.ends[side], number % (self.number + 2)
        is_wanted = end.wanted.pop(id, None) is not None
        end.peer.cancel(id)
        self._expect_cancel(end, is_wanted)

    def hurry(self, side: int, number: int) -> None:
        end, id = self.ends[side], number % (self.number + 2)
        end.peer.request_cancel(id)
        self._expect_cancel(end, id in end.wanted)

    def _expect_cancel(self, end: End, is_due: bool) -> None:
        """Only a call that waits for its answer is taken back."""
        frames = end.peer.take()
        assert [msgspec.json.decode(frame)["method"] for frame in frames] == ["$/cancel_request"] * is_due
        self.ends[1 - self.ends.index(end)].arriving += frames

    def deliver(self, side: int, number: int, times: int = 1) -> None:
        end = self.ends[side]
        if end.arriving:
            frame = end.arriving.pop(number % min(len(end.arriving), 5))
            for _ in range(times):
                self._arrive(end, frame)

    def lose(self, side: int, number: int) -> None:
        self.deliver(side, number, times=0)

    def repeat(self, side: int, number: int) -> None:
        self.deliver(side, number, times=2)

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
                if "method" in message:
                    assert len(end.owed) == MOST
                else:
                    assert message.get("id") not in end.wanted
            case None:
                assert message["method"] == "$/cancel_request"

    def answer(self, side: int, number: int) -> None:
        end = self.ends[side]
        if not end.owed:
            return
        key = sorted(end.owed)[number % len(end.owed)]
        asked = end.owed.pop(key)
        for _ in range(2):  # the second answer is nothing
            if number % 3:
                end.peer.reply(key, {"number": asked})
            else:
                end.peer.fail(key, InvalidParams(data={"number": asked}))
        frames = end.peer.take()
        assert len(frames) == 1
        self.ends[1 - side].arriving += frames

    def check(self) -> None:
        """Nothing is forgotten, nothing made up."""
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
