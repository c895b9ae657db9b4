"""Limits: what is taken up to each, what is refused or forgotten beyond it, and what has room again afterwards.

`LIMITS` has those that one call can show; `ELSEWHERE` names the tests of others, which take a running program.
"""

import ast
import asyncio
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from msgspec import Raw
from patience import PATIENCE
from torture.by_hand import Hand, Ponging, facing_agent, facing_client, update

from dragoman import Agent, Turn
from dragoman import schema as s
from dragoman.connection import connection
from dragoman.dialects.engine.translator import Remembered
from dragoman.errors import Error, InvalidParams, InvalidRequest
from dragoman.framing import TooDeep, check
from dragoman.gateway.access.proxies import TrustedProxies
from dragoman.gateway.access.throttle import Throttle
from dragoman.gateway.access.tokens import is_name
from dragoman.gateway.log.engine import LogEntry
from dragoman.gateway.log.records import PromptEnded, own_frame, update_frame
from dragoman.gateway.log.summary import LogSummary
from dragoman.gateway.sessions.prompt_queue import key_of
from dragoman.host.calls import OpenToolCalls
from dragoman.host.operations import Execute, FileRead, McpTool, NetworkAccess, Operation
from dragoman.host.permissions import Question, Rules
from dragoman.host.permissions.asking import TOO_MANY, Questions
from dragoman.host.permissions.claims import malformed
from dragoman.host.permissions.rules.patterns import complaint
from dragoman.host.permissions.scrutiny import impossible, is_too_long
from dragoman.testing import pair

TESTS = Path(__file__).parent
Holds = Callable[[int], bool]  # whether so much is taken, or of so many the first is still known


def does(call: Callable[[], object]) -> bool:
    try:
        call()
    except (Error, TooDeep):
        return False
    return True


def possible(operation: Operation) -> bool:
    return impossible(operation) is None


def of_options(*options: tuple[str, str]) -> bool:
    """Whether a question with these options can be put to somebody."""
    offered = [s.PermissionOption(option_id=id, name=name, kind="allow_once") for id, name in options]
    call = s.ToolCallUpdate(tool_call_id="c")
    return malformed(s.RequestPermissionRequest(session_id="s", tool_call=call, options=offered)) is None


def rules_of(tmp_path: Path, text: str) -> bool:
    (tmp_path / "rules.toml").write_text(text)
    return does(lambda: Rules.load(tmp_path / "rules.toml", tmp_path / "none", lambda path, digest: False))


def knows_call(told: OpenToolCalls) -> bool:
    asked = s.RequestPermissionRequest(session_id="s", tool_call=s.ToolCallUpdate(tool_call_id="0"), options=[])
    return told.completed(asked).tool_call.title == "first"


def after_calls(count: int, size: int = 1) -> bool:
    """Whether the first of so many calls is still known."""
    told = OpenToolCalls()
    for number in range(count):
        told.hear(s.ToolCall(tool_call_id=str(number), title="first" if number == 0 else "later"), size)
    return knows_call(told)


def summed_up(frames: list[bytes]) -> LogSummary:
    summary = LogSummary()
    summary.add(1, [LogEntry("agent", frame) for frame in frames])
    return summary


def outcomes(count: int) -> bool:
    ended = [own_frame(PromptEnded(f"ann/{number}")) for number in range(count)]
    return summed_up(ended).outcome_of("ann/0") == 1


def tool_frame(id: str) -> bytes:
    update = msgspec.json.encode({"sessionUpdate": "tool_call", "toolCallId": id, "title": "t"})
    return update_frame({"sessionId": Raw(b'""'), "update": Raw(update)}, "s", 1)


def tools(count: int) -> bool:
    return "0" in summed_up([tool_frame(str(number)) for number in range(count)]).tools


def throttled(count: int) -> bool:
    throttle = Throttle(1, 60.0, clock=lambda: 0.0)
    for number in range(count):
        throttle.failed(str(number))
    return throttle.wait("0") > 0


def remembered(count: int) -> bool:
    kept: Remembered[int, int] = Remembered()
    for number in range(count):
        kept[number] = number
    return 0 in kept


def hops(count: int) -> bool:
    """Whether a client is found behind so many addresses, its own included."""
    told = ", ".join(["192.0.2.1", *["10.0.0.2"] * (count - 1)]).encode()
    scope = {"client": ("10.0.0.1", 1), "headers": [(b"x-forwarded-for", told)]}
    return TrustedProxies(["10.0.0.0/8"]).seen_through(scope)["client"][0] == "192.0.2.1"


def keyed(count: int) -> bool:
    found = {"_meta": Raw(msgspec.json.encode({"dragoman.prompt": "k" * count}))}
    return does(lambda: key_of(found, SimpleNamespace(name="ann")))  # type: ignore[arg-type]


RULE = '[[ask]]\noperation = "file_read"\npath = "a"\n'
LIMITS: dict[str, Callable[[Path], Holds]] = {
    "framing:MAX_DEPTH": lambda _: lambda n: does(lambda: check(b"[" * n + b"]" * n)),
    "gateway.access.tokens:MAX_NAME": lambda _: lambda n: is_name("a" * n),
    "gateway.access.throttle:MAX_SOURCES": lambda _: throttled,
    "gateway.access.proxies:MOST": lambda _: hops,
    "gateway.sessions.prompt_queue:MAX_KEY": lambda _: keyed,
    "gateway.log.summary:MAX_OUTCOMES": lambda _: outcomes,
    "gateway.log.summary:MAX_TOOLS": lambda _: tools,
    "gateway.log.summary:MAX_TOOL_ID": lambda _: lambda n: summed_up([tool_frame("i" * n)]).tools != {},
    "dialects.engine.translator:MAX_KEPT": lambda _: remembered,
    "host.calls:MAX_CALLS": lambda _: after_calls,
    "host.calls:MAX_BYTES": lambda _: lambda n: after_calls(1, n),
    "host.permissions.claims:MAX_OPTIONS": lambda _: lambda n: of_options(*((str(i), f"o{i}") for i in range(n))),
    "host.permissions.claims:MAX_LABEL of a name": lambda _: lambda n: of_options(("a", "x" * n)),
    "host.permissions.claims:MAX_LABEL of an id": lambda _: lambda n: of_options(("x" * n, "b")),
    "host.permissions.rules.rules:MAX_RULES": lambda path: lambda n: rules_of(path, RULE * n),
    "host.permissions.rules.rules:MAX_FILE": lambda path: lambda n: rules_of(path, "#" * n),
    "host.permissions.rules.patterns:MAX_PATTERN": lambda _: lambda n: complaint("a" * n) is None,
    "host.permissions.rules.patterns:MAX_ALTERNATIVES": lambda _: (
        lambda n: complaint(f"{{{','.join('a' * n)}}}") is None
    ),
    "host.permissions.scrutiny:MAX_PATH": lambda _: lambda n: possible(FileRead(path="/" + "a" * (n - 1))),
    "host.permissions.scrutiny:MAX_VARIABLES": lambda _: (
        lambda n: possible(Execute(argv=("a",), cwd="/", env=tuple((f"v{i}", "") for i in range(n))))
    ),
    "host.permissions.scrutiny:MAX_NAME of a server": lambda _: (
        lambda n: possible(McpTool(server="s" * n, tool="t"))
    ),
    "host.permissions.scrutiny:MAX_NAME of a tool": lambda _: lambda n: possible(McpTool(server="s", tool="t" * n)),
    "host.permissions.scrutiny:MAX_WORD": lambda _: lambda n: not is_too_long(["a" * (n - 1)], []),  # with its NUL
    "host.addresses:MAX_URL": lambda _: lambda n: possible(NetworkAccess(url="https://a.test/".ljust(n, "a"))),
}
# What the documentation promises, and the tests that show it in a running program.
ELSEWHERE = {
    "framing:MAX_FRAME": "test_core_promises.py::"
    "test_a_frame_as_large_as_peers_accept_is_sent_and_a_larger_one_is_not",
    "rpc:MAX_OWED": "test_connection.py::test_requests_of_one_peer_are_limited_and_those_beyond_refused",
    "connection.connection:IN_WORKS": "test_connection_limits.py::"
    "test_requests_that_are_being_answered_have_a_limit_in_bytes_and_leave_room_behind",
    "connection.connection:HARD_LIMIT": "test_connection.py::"
    "test_who_never_waits_for_the_wire_is_told_and_can_go_on_later",
    "client.inbox:DISK": "test_connection.py::test_an_agent_has_to_wait_when_there_is_no_room_left",
    "codec:MAX_DROPPED": "test_core_promises.py::test_items_that_do_not_fit_are_left_out_up_to_a_number",
    "store.outbox:ROOM": "store/test_waiting_writes.py::"
    "test_a_sender_waits_while_more_is_to_be_stored_than_there_is_room_for",
    "host.lending:MAX_WATCHES": "host/test_host_extensions.py::"
    "test_a_session_watches_only_so_many_directories_and_none_when_it_is_closed",
    "host.files.workspace:MAX_EDITS": "host/test_files_edits.py::test_too_many_edits_are_refused",
    "host.permissions.approvals:MAX_APPROVALS": "host/test_approval_limits.py::"
    "test_the_oldest_approvals_go_when_there_are_too_many",
    "transports.remote.cookies:MOST": "remote/test_addresses.py::"
    "test_a_server_cannot_make_us_carry_ever_more_cookies",
}


def limit(name: str) -> int:
    module, _, constant = name.partition(" ")[0].partition(":")
    return int(getattr(import_module(f"dragoman.{module}"), constant))


@pytest.mark.parametrize("name", LIMITS)
def test_as_much_as_the_limit_is_taken_and_one_more_is_not(name: str, tmp_path: Path) -> None:
    holds, most = LIMITS[name](tmp_path), limit(name)
    assert [holds(most - 1), holds(most), holds(most + 1)] == [True, True, False]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_limit_that_takes_a_running_program_has_a_test_of_its_own(name: str) -> None:
    assert limit(name) > 0
    file, _, test = ELSEWHERE[name].partition("::")
    nodes = ast.walk(ast.parse((TESTS / file).read_text()))
    assert test in {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


# Questions that wait for a person: (how many fit, the session and the words of each)
QUESTIONS: dict[str, tuple[int, Callable[[int], tuple[str, str]]]] = {
    "MAX_WAITING": (1 + limit("host.permissions.asking:MAX_WAITING"), lambda n: ("s", str(n))),
    "MAX_OPEN": (limit("host.permissions.asking:MAX_OPEN"), lambda n: (str(n), "same")),
    "MAX_EQUAL": (limit("host.permissions.asking:MAX_EQUAL"), lambda n: ("s", "same")),
}


def question(session: str, words: str) -> Question:
    return Question(session_id=session, title=words, text=words, key=words, options=())


@pytest.mark.parametrize("name", QUESTIONS)
async def test_only_so_many_questions_wait_for_a_person(name: str) -> None:
    most, written = QUESTIONS[name]

    async def nobody(question: Question) -> str | None:
        await asyncio.Event().wait()
        return None

    questions = Questions(nobody)
    asked = [asyncio.create_task(questions.ask(question(*written(number)))) for number in range(most)]
    for _ in range(3):
        await asyncio.sleep(0)
    assert not any(task.done() for task in asked)
    async with asyncio.timeout(PATIENCE):
        assert await questions.ask(question(*written(most))) is TOO_MANY
        asked[0].cancel()  # its turn is over
        await asyncio.wait(asked[:1])
    asked.append(asyncio.create_task(questions.ask(question(*written(most)))))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not asked[-1].done()
    for task in asked:
        task.cancel()
    await asyncio.wait(asked)


async def test_only_so_many_prompts_of_a_session_wait_for_their_turn() -> None:
    may_go_on = asyncio.Semaphore(0)

    class Slow(Agent):
        async def answer(self, turn: Turn) -> None:
            await turn.say("begun")
            await may_go_on.acquire()

    most = 1 + limit("agent.agent:MAX_WAITING")
    async with pair(Slow) as client, asyncio.timeout(PATIENCE):
        session = await client.new_session("/")
        prompts = [session.prompt(str(number)) for number in range(most)]
        async for _ in prompts[0]:
            break
        with pytest.raises((InvalidRequest, InvalidParams), match="prompts are waiting"):
            await session.prompt("one too many")
        may_go_on.release()
        assert (await prompts[0]).stop_reason == "end_turn"
        prompts.append(session.prompt("there is room again"))
        for _ in range(most):
            may_go_on.release()
        for prompt in prompts[1:]:
            assert (await prompt).stop_reason == "end_turn"


async def test_updates_of_only_so_many_unopened_sessions_are_kept() -> None:
    most = limit("client.inboxes:MAX_UNOPENED")
    for count, is_first_kept in ((most, True), (most + 1, False)):
        async with facing_client() as (client, hand):
            hand.send(*[update(f"s{number}", "words") for number in range(count)])
            await hand.ping()
            kept = [bool(list(client.session(id).backlog())) for id in ("s0", "s1", f"s{count - 1}")]
            assert kept == [is_first_kept, True, True]


async def test_the_third_login_with_wrong_credentials_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BURST", 3600.0)  # each answer waits for others that may go with it

    class Guarded(Ponging):
        auth_methods = (s.AuthMethodAgent(id="key", name="With a key"),)

        async def authenticate(self, params: s.AuthenticateRequest) -> s.AuthenticateResponse:
            if (params.meta or {}).get("credentials") != "right":
                raise InvalidParams("the key is wrong")
            return s.AuthenticateResponse()

    async def log_in(hand: Hand, key: str) -> bool:
        answer = await hand.ask("authenticate", {"methodId": "key", "_meta": {"credentials": key}})
        return "result" in answer

    async with facing_agent(Guarded) as hand:
        found = [await log_in(hand, key) for key in ("wrong", "wrong", "right", "wrong", "wrong")]
        assert found == [False, False, True, False, False]
        await hand.ping()  # one that succeeds forgets those before it
        assert not await log_in(hand, "wrong")  # which is answered
        async with asyncio.timeout(PATIENCE):
            await hand.over.wait()
