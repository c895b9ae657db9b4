"""Whatever gets into a conversation, the next prompt works: over every provider's wire, with servers that refuse
what the real ones refuse."""

import base64
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Session, Turn
from dragoman import schema as s
from dragoman.coder import Coder, ScriptedModel, call
from dragoman.coder.context.kept_history import MAX_TEXT
from dragoman.coder.model.port import Busy
from dragoman.errors import InternalError
from dragoman.store import Store, durable
from dragoman.testing import pair

from .desk import QUICK, BareClient, DiskClient, calls, desk, results, said, updates
from .model_servers import Answer, Anthropic, Google, ModelServer, OpenAIChat, Plain, Step, answer, compatible
from .strict_servers import POISON, STRICT
from .talking import talking

pytestmark = pytest.mark.usefixtures("collected")
every_wire = pytest.mark.parametrize("wire", STRICT, ids=lambda wire: wire.__name__)

SERVER = Path(__file__).parent.parent / "mcp" / "poison.py"
MCP = s.McpServerStdio(name="bad", command=sys.executable, args=[str(SERVER)], env=[])
PNG = b"\x89PNG\r\n\x1a\n"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 132735\n"


def image(data: bytes | str, media: str = "image/png") -> list[s.ContentBlock]:
    written = data if isinstance(data, str) else base64.b64encode(data).decode()
    return [s.TextContent(text="Look:"), s.ImageContent(data=written, mime_type=media)]


def audio(data: bytes, media: str) -> list[s.ContentBlock]:
    return [s.AudioContent(data=base64.b64encode(data).decode(), mime_type=media)]


def blob(data: bytes, media: str | None, uri: str = "file:///a.pdf") -> list[s.ContentBlock]:
    written = base64.b64encode(data).decode()
    return [s.EmbeddedResource(resource=s.BlobResourceContents(uri=uri, blob=written, mime_type=media))]


def attached(text: str, uri: str = "file:///a.py") -> list[s.ContentBlock]:
    return [s.EmbeddedResource(resource=s.TextResourceContents(uri=uri, text=text))]


def link(uri: str, name: str = "a") -> list[s.ContentBlock]:
    return [s.ResourceLink(name=name, uri=uri)]


PROMPTS: dict[str, Any] = {
    "no base64": image("!!!"),
    "base64 without its end": image("iVBORw0KGgo"),
    "an empty picture": image(""),
    "an LFS pointer": image(LFS),
    "a JPEG called PNG": image(b"\xff\xd8\xff\xe0\0\x10JFIF"),
    "a page called JPEG": image(b"<html>404</html>", "image/jpeg"),
    "an SVG": image(b"<svg/>", "image/svg+xml"),
    "a TIFF": image(b"II*\0\x08\0\0\0\xff\xfe", "image/tiff"),
    "no type": image(PNG, ""),
    "half a type": image(PNG, "image"),
    "a nonsense type": image(PNG, "image/\n{}"),
    "a huge picture": image(PNG + bytes(6 * 1024 * 1024)),
    "a picture that cannot be painted": image(PNG + b"UNPAINTABLE"),
    "a sound that is none": audio(b"no sound", "audio/wav"),
    "a sound of no type": audio(b"RIFF....WAVE", "x"),
    "bytes of no type": blob(b"\x00\x01\xff\xfe", None),
    "a broken document": blob(b"\xff\xfe\x00", "application/pdf"),
    "a text called a document": blob(b"hello", "application/pdf"),
    "an empty document": blob(b"", "application/pdf"),
    "a text as bytes": blob(b"hello", "text/plain"),
    "nothing": "",
    "blanks": " \n\t ",
    "a NUL": "a\0b",
    "a text that is refused": f"Tell me of {POISON}",
    "a blank attachment": attached(" \n"),
    "an attachment that is refused": attached(f"x = {POISON}"),
    "an attachment of no address": attached("x = 1", "http://[bad"),
    "a mention of no address": link("http://[bad"),
    "a mention of nothing": link("", "\n"),
    "a mention with a NUL": link("file:///a%00b"),
    "a picture cut in half": image(PNG + b"\0\0\0\rIHDR\0\0\0\1"),
    "a picture of the web's own kind": image(b"RIFF\xff\xff\xff\xffWEBPVP8 ", "image/webp"),
    "a type of another case with a parameter": image(PNG, "IMAGE/PNG; charset=utf-8"),
    "a picture with its address in front": image("data:image/png;base64,iVBORw0KGgo="),
    "escapes and marks of direction": "\x1b]0;a\x07 \u202e \ufeff \ufffe \u2028",
    "a pile of accents": "e" + "\u0301" * 100_000,
    "an attachment of half a megabyte": attached("x = 1\n" * 80_000),
    "a mention of many parts": link("file:///" + "a/" * 3000),
    "a mention of this very directory": link("file:///"),
}
READ = ("read_file", {"path": "fine.txt"})
ANSWERS: dict[str, Sequence[Step]] = {
    "two calls under one id": [Answer(calls=[("read_file", '{"path": "fine.txt"}')] * 2, ids=["same", "same"])],
    "an id of an earlier answer": [Answer(calls=[("read_file", '{"path": "fine.txt"}')], ids=["same"])],
    "an empty id": [Answer(calls=[("read_file", '{"path": "fine.txt"}')], ids=[""])],
    "an odd id": [Answer(calls=[("read_file", '{"path": "fine.txt"}')], ids=["a b/ü" * 50])],
    "a tool of an odd name": [answer("", ("rm -rf /", {}))],
    "a tool of a long name": [answer("", ("x" * 200, {}))],
    "a tool without a name": [answer("", ("", {}))],
    "a list of arguments": [answer("", ("read_file", "[1]"))],
    "no JSON": [answer("", ("read_file", '{"path": "a'))],
    "deep arguments": [answer("", ("read_file", '{"path":' * 2000 + "1" + "}" * 2000))],
    "a blank answer": [answer(" \n ")],
    "an empty answer": [answer("")],
    "blanks and a call": [answer("\n\n", READ)],
    "null in a stream": [Plain(200, "data: null\n\n")],
    "no JSON in a stream": [Plain(200, "data: {nonsense\n\n")],
    "a list in a stream": [Plain(200, 'data: [1, "a"]\n\n')],
    "an LFS pointer in a file": [answer("", ("read_file", {"path": "pointer.png"}))],
    "a broken document in a file": [answer("", ("read_file", {"path": "broken.pdf"}))],
    "a file that is refused": [answer("", ("read_file", {"path": "poison.txt"}))],
    "a picture in a file that cannot be painted": [answer("", ("read_file", {"path": "unpaintable.png"}))],
    "a tool's broken picture": [answer("", ("mcp__bad__draw", {}))],
    "a tool's picture of another kind": [answer("", ("mcp__bad__draw_svg", {}))],
    "a tool's blank result": [answer("", ("mcp__bad__blank", {}))],
    "an argument twice": [answer("", ("read_file", '{"path": "a", "path": "fine.txt"}'))],
    "a number that is none": [answer("", ("read_file", '{"path": "fine.txt", "limit": NaN}'))],
    "a number of very many digits": [
        answer("", ("read_file", '{"path": "fine.txt", "limit": ' + "9" * 5000 + "}"))
    ],
    "half a character in an argument": [answer("", ("read_file", '{"path": "\\ud83d"}'))],
    "a NUL in an argument": [answer("", ("read_file", '{"path": "a\\u0000b"}'))],
    "twenty calls at once": [Answer(calls=[("read_file", '{"path": "fine.txt"}')] * 20)],
    "a path of very many letters": [answer("", ("read_file", {"path": "a" * 5000}))],
}
NOT_JSON = ("a list of arguments", "no JSON", "deep arguments", "a number of very many digits")


def _groups(names: list[str], size: int) -> Iterator[list[str]]:
    yield from (names[i : i + size] for i in range(0, len(names), size))


def test_there_are_enough_of_them() -> None:
    assert len(PROMPTS) + len(ANSWERS) - len(NOT_JSON) >= 50


async def tried(session: Session, prompt: Any) -> str:
    """What became of a prompt: the reason it stopped, or the error that the user is shown."""
    try:
        return (await session.prompt(prompt)).stop_reason
    except InternalError as exc:
        return exc.message


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "fine.txt").write_text("fine\n")
    (root / "pointer.png").write_bytes(LFS)
    (root / "broken.pdf").write_bytes(b"\xff\xfe\x00")
    (root / "poison.txt").write_text(f"{POISON}\n")
    (root / "unpaintable.png").write_bytes(PNG + b"UNPAINTABLE")
    return root


@pytest.mark.parametrize("said_by", ["user", "model"])
@every_wire
async def test_after_each_of_fifty_poisonous_parts_the_next_prompt_works(
    wire: type[ModelServer], said_by: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = dict.fromkeys(PROMPTS, ()) if said_by == "user" else ANSWERS
    left_out = NOT_JSON if issubclass(wire, Google) else ()  # on its wire arguments are always JSON
    steps = {name: [*steps, answer("Seen.")] for name, steps in given.items() if name not in left_out}
    async with talking(wire, project, monkeypatch, deadline=110) as (_, client, server):
        for group in _groups(list(steps), 5):
            # Long histories take the libraries below long, so that several sessions take less time than one.
            servers = [MCP] if any(name.startswith("a tool's") for name in group) else []
            session = await client.new_session(project, mcp_servers=servers)
            for name in group:
                server.steps[:] = steps[name]
                outcome = await tried(session, PROMPTS.get(name, name))
                assert outcome != "Internal error", name
                server.steps[:] = [answer(f"After {name}.")]
                assert await tried(session, "And now?") == "end_turn", name
                assert said(updates(client)[-20:]).endswith(f"After {name}."), name
    assert not [shown for shown in calls(client).values() if shown["status"] in ("pending", "in_progress")]


# One by one


async def test_calls_under_one_id_all_have_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("first\n")
    (tmp_path / "b").write_text("second\n")
    both = [("read_file", json.dumps({"path": name})) for name in "ab"]
    steps = Answer(calls=both, ids=["same", "same"]), Answer(calls=both[:1], ids=["same"]), answer("Done.")
    async with talking(OpenAIChat, tmp_path, monkeypatch, *steps) as (session, client, server):
        await session.prompt("Go")
    told = [message for message in server.requests[-1]["messages"] if message["role"] == "tool"]
    assert [message["content"].split("\t")[1] for message in told] == ["first", "second", "first"]
    assert len({message["tool_call_id"] for message in told}) == 3
    assert [shown["status"] for shown in calls(client).values()] == ["completed"] * 3


async def test_what_is_refused_is_left_out_and_the_user_is_told(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = answer("", ("read_file", {"path": "unpaintable.png"})), answer("I could not see it.")
    async with talking(STRICT[0], project, monkeypatch, *steps) as (session, client, _):
        assert await tried(session, "Look at it") == "end_turn"
        refused = await tried(session, f"Tell me of {POISON}")
        assert "is not allowed" in refused and "was removed" in refused
        assert await tried(session, "And now?") == "end_turn"
    (notice,) = [update for update in updates(client) if isinstance(update, s.Notice)]
    assert "left out" in notice.title and "Could not process image" in (notice.description or "")


async def test_a_provider_that_refuses_whatever_it_is_sent_is_asked_a_few_times_and_no_more(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once nothing can be left out any more the prompt ends; each request costs the user money."""

    class Refusing(OpenAIChat):
        def refusal(self, request: dict[str, Any]) -> str | None:
            return None if len(self.requests) == 1 else "we do not like it"

    steps = answer("", ("read_file", {"path": "fine.txt"})), answer("Never said.")
    async with talking(Refusing, project, monkeypatch, *steps) as (session, _, server):
        assert "we do not like it" in await tried(session, "Read it")
    assert len(server.requests) == 3  # the call; its result; no result


async def test_a_text_longer_than_is_kept_loses_its_middle_and_says_so(tmp_path: Path) -> None:
    scripted = ScriptedModel("Read.", window=100_000_000)
    async with desk(tmp_path, model=scripted) as (session, _, model):
        await session.prompt("a" * MAX_TEXT + "b" * 1000)
    (first,) = model.requests[0].history
    half = MAX_TEXT // 2
    assert first.text == f"{'a' * half}\n\n[1000 characters left out]\n\n{'a' * (half - 1000)}{'b' * 1000}"


async def test_tools_with_wrong_schemas_are_left_out_with_a_sentence_and_the_others_work(tmp_path: Path) -> None:
    steps = [call("mcp__bad__good"), call("mcp__bad__bad_name_"), "Done.", "Again."]
    async with desk(tmp_path, *steps, options={"mcp_servers": [MCP]}) as (session, client, model):
        await session.prompt("Go")
        await session.prompt("Go on")
    offered = {tool.name for tool in model.requests[0].tools if tool.name.startswith("mcp")}
    assert offered == {f"mcp__bad__{name}" for name in ("good", "bad_name_", "draw", "draw_svg", "blank")}
    assert results(model)[0][2] == "good"
    notices = [update for update in updates(client) if isinstance(update, s.Notice)]
    assert [notice.title for notice in notices] == [
        f"The tool mcp__bad__{name} cannot be used" for name in ("no_list", "no_type", "elsewhere", "nowhere")
    ]
    assert "describes its arguments wrongly: anyOf: 'no' is not of type 'array'" in (notices[0].description or "")


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        (OpenAIChat, "Invalid schema for function 'mcp__bad__draw': schema must have type 'object'"),
        (Anthropic, "tools.{place}.custom.input_schema: JSON schema is invalid"),
        (Google, "* GenerateContentRequest.tools[0].function_declarations[{place}].parameters: wrong"),
    ],
)
async def test_a_tool_that_a_provider_refuses_is_left_out(
    wire: type[ModelServer], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Picky(wire):  # type: ignore[misc, valid-type]
        def refusal(self, request: dict[str, Any]) -> str | None:
            tools = request["tools"]
            tools = tools[0].get("functionDeclarations", tools)
            names = [tool.get("name") or tool["function"]["name"] for tool in tools]
            place = names.index("mcp__bad__draw") if "mcp__bad__draw" in names else None
            return None if place is None else words.format(place=place)

    steps, options = (answer("Here."), answer("Again.")), {"mcp_servers": [MCP]}
    async with talking(Picky, tmp_path, monkeypatch, *steps, options=options) as (session, client, server):
        assert await tried(session, "Go") == "end_turn"
        assert await tried(session, "Again") == "end_turn"
    assert len(server.requests) == 3
    assert "The tool mcp__bad__draw is left out of this session" in str(updates(client))


async def test_a_session_that_was_poisoned_long_ago_works_again(tmp_path: Path) -> None:
    """Its store has what nobody checked then."""
    poisoned = {"type": "user", "parts": [{"type": "media", "media_type": "image/png", "data": "!!!", "name": "a"}]}

    class Old(Agent):
        async def answer(self, turn: Turn) -> None:
            turn.session.state.update({"coder": {"messages": 1}, "coder.message.0": poisoned})

    store = Store(tmp_path / "store")
    async with pair(durable(Old, store, name="dragoman-coder"), DiskClient()) as client:
        session = await client.new_session(tmp_path)
        await session.prompt("Go")
    kept, model = durable(Coder, store), ScriptedModel("Here.", takes=["image"])
    async with pair(lambda remote: kept(remote, model=model), DiskClient()) as client:
        loaded = await client.load_session(session.id, tmp_path)
        await loaded.prompt("Go on")
    first, _ = model.requests[-1].history
    assert "a of type image/png cannot be shown to you: it is no base64" in first.text


# Too long


OVERFLOWS = {
    "llamacpp": (
        400,
        "the request exceeds the available context size, try increasing it",
        "exceed_context_size_error",
    ),
    "llamacpp, older": (
        500,
        "the request exceeds the available context size. try increasing the context size",
        None,
    ),
    "lmstudio": (
        400,
        "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with "
        "context length of only 4096 tokens, which is not enough.",
        None,
    ),
    "lmstudio, in few words": (400, "Trying to keep the first 9 tokens when context the overflows.", None),
    "groq, a proxy in front": (413, "Payload Too Large", None),
    "xai": (400, "This model's maximum prompt length is 131072 but the request contains 136973 tokens.", None),
    "groq": (
        413,
        "Request too large for model `openai/gpt-oss-120b` in organization `org_1` service tier `on_demand` on "
        "tokens per minute (TPM): Limit 8000, Requested 14137, please reduce your message size and try again.",
        "tokens",
    ),
    "anthropic": (
        400,
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or "
        "`max_tokens` and try again",
        "invalid_request_error",
    ),
    "anthropic, the body": (413, "Request exceeds the maximum size", "request_too_large"),
    "openai, a minute": (
        429,
        "Request too large for gpt-5.4 on tokens per min (TPM): Limit 30000, Requested 342389. The input or output "
        "tokens must be reduced in order to run successfully.",
        "tokens",
    ),
}


@pytest.mark.parametrize("name", OVERFLOWS)
async def test_every_way_to_say_too_long_is_understood(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, words, kind = OVERFLOWS[name]
    code = "rate_limit_exceeded" if kind == "tokens" else None
    provider = name.partition(",")[0]
    key = f"{provider.upper()}_API_KEY"
    wire = {"anthropic": Anthropic, "openai": OpenAIChat}.get(provider) or compatible(provider, key=key)
    error = {"type": kind, "message": words, "code": code}
    overflow = Plain(status, {"type": "error", "error": error})
    steps = answer("One."), overflow, answer("We counted."), answer("Two.")
    async with talking(wire, tmp_path, monkeypatch, *steps) as (session, client, server):
        await session.prompt("Count")
        assert await tried(session, "Go on") == "end_turn"
    assert "Write a summary" in server.told()[2]
    assert said(updates(client)).endswith("Two.")


async def test_too_long_in_the_middle_of_a_stream_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "Trying to keep the first 9 tokens when context the overflows. However, the model is loaded with ..."
    overflow = Plain(200, f'event: error\ndata: {{"error": {{"message": "{words}"}}}}\n\n')
    steps = answer("One."), overflow, answer("We counted."), answer("Two.")
    async with talking(compatible("lmstudio"), tmp_path, monkeypatch, *steps) as (session, client, _):
        await session.prompt("Count")
        assert await tried(session, "Go on") == "end_turn"
    assert said(updates(client)).endswith("Two.")


async def test_a_message_too_long_for_the_model_is_taken_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Small(OpenAIChat):
        def refusal(self, request: dict[str, Any]) -> str | None:
            limit = "This model's maximum context length is 128000 tokens."
            return limit if len(json.dumps(request["messages"])) > 100_000 else None

    async with talking(Small, tmp_path, monkeypatch, answer("One."), answer("Two.")) as (session, _, server):
        assert await tried(session, "Count") == "end_turn"
        outcome = await tried(session, "x" * 200_000)
        assert "longer than" in outcome and "was removed" in outcome
        assert await tried(session, "Go on") == "end_turn"
    assert "Count" in server.told()[-1] and "xxx" not in server.told()[-1]


# Long conversations


async def test_what_the_user_said_is_kept_word_for_word_through_every_compaction(tmp_path: Path) -> None:
    steps = ["One.", "A summary.", "Two.", "A second summary.", "Three.", "A third one.", "Four."]
    async with desk(tmp_path, *steps) as (session, _, model):
        await session.prompt("NEVER TOUCH prod.cfg")
        for words in ("Count on", "And on", "To the end"):
            await session.prompt("/compact")
            await session.prompt(words)
    last = "\n".join(message.text for message in model.requests[-1].history)
    assert [last.count(words) for words in ("NEVER TOUCH prod.cfg", "Count on", "And on", "To the end")] == [1] * 4
    assert "A third one." in last and "A second summary." not in last


async def test_the_users_short_words_survive_long_pastes(tmp_path: Path) -> None:
    paste = "log line\n" * 3000
    model = ScriptedModel("One.", "Two.", "A summary.", "Three.", window=9000)
    async with desk(tmp_path, model=model, client=BareClient()) as (session, _, _model):
        await session.prompt("NEVER TOUCH prod.cfg")
        await session.prompt(paste)
        await session.prompt("/compact")
        await session.prompt("Go on")
    last = "\n".join(message.text for message in model.requests[-1].history)
    assert "NEVER TOUCH prod.cfg" in last and "Go on" in last


@pytest.mark.parametrize("status", [408, 429, 503])
async def test_a_provider_that_is_busy_is_tried_again(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = Plain(status, {"error": {"message": "not now", "type": None, "code": None}})
    async with talking(OpenAIChat, tmp_path, monkeypatch, busy, answer("Here.")) as (session, client, _):
        assert await tried(session, "Go") == "end_turn"
    assert said(updates(client)).endswith("Here.")


async def test_a_model_that_is_busy_during_a_compaction_is_tried_again(tmp_path: Path) -> None:
    steps = ["One.", Busy("not now"), Busy("not now"), "A summary.", "Two."]
    async with desk(tmp_path, *steps, limits=QUICK) as (session, client, model):
        await session.prompt("Count")
        await session.prompt("/compact")
        await session.prompt("Go on")
    assert "The conversation was made shorter." in said(updates(client))
    assert "A summary." in str(model.requests[-1].history)


# Commands in the background


@pytest.mark.parametrize("client", [DiskClient, BareClient])
async def test_commands_that_have_ended_keep_no_slot_and_can_still_be_read(tmp_path: Path, client: Any) -> None:
    model = ScriptedModel()

    def script() -> Iterator[Any]:
        for n in range(1, 13):
            yield call("run_command", command=f"echo number {n}", background=True)
            yield call("command_output", id=f"command-{n}")
            while "It still runs" in results(model)[-1][2]:
                yield call("run_command", command="sleep 0.02")
                yield call("command_output", id=f"command-{n}")
        yield call("command_output", id="command-11")
        yield "Done."

    model._steps = script()
    async with desk(tmp_path, model=model, client=client()) as (session, _, _model):
        await session.prompt("Go")
    started = [words for name, _, words in results(model) if name == "run_command" and "Exit" not in words]
    assert [words.split()[3] for words in started] == [f"command-{n}." for n in range(1, 13)]
    assert "number 11" in results(model)[-1][2]
