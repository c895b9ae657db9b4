"""What a durable session does, seen by a client over a wire."""

import asyncio
import contextlib
import hashlib
import io
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from dragoman import Agent, Prompt, Session, Transcript, Turn, connect
from dragoman import schema as s
from dragoman.errors import InvalidParams, InvalidRequest, ResourceNotFound
from dragoman.store import Store, durable
from dragoman.store.database.database import Database
from dragoman.store.exchange.exchange import exported, imported
from dragoman.store.telling import told
from dragoman.transcript import TurnEnd

from .conftest import Notebook

pytestmark = pytest.mark.usefixtures("nothing_left")


async def lived(session: Session, *prompts: str) -> list[s.SessionUpdate]:
    """What a client is told while it prompts."""
    seen: list[s.SessionUpdate] = list(session.backlog())
    for prompt in prompts:
        async for event in session.prompt(prompt):
            if not isinstance(event, s.PromptResponse):
                seen.append(event)
    return seen


def agents_own(updates: list[s.SessionUpdate]) -> list[s.SessionUpdate]:
    """Without the user's words, which are told again only, and the commands, announced whenever a session opens."""
    return [u for u in updates if not isinstance(u, s.UserMessageChunk | s.AvailableCommandsUpdate)]


async def test_everything_is_told_again_in_order_and_before_the_answer(notebook: type[Agent]) -> None:
    prompt = "think hm\nsay one\nsay two\nplan a b\ntool Edit\nmode code\ntitle My title\nmeta more\nsay three"
    async with connect(notebook) as client:
        session = await client.new_session()
        live = await lived(session, prompt, "say again")
    async with connect(notebook) as client:
        loaded = await client.load_session(session.id)
        told = list(loaded.backlog())
        assert agents_own(told) == agents_own(live)
        assert len(agents_own(live)) == 12
        said = [update.content.text for update in told if isinstance(update, s.UserMessageChunk)]
        assert said == [prompt, "say again"]
        assert loaded.modes and loaded.modes.current_mode_id == "code"


async def test_what_a_screen_shows_is_the_same_live_and_loaded(notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
        live = Transcript(session.backlog())
        live.said([s.TextContent(text="tool A\nsay x\nplan p")])
        async for event in session.prompt("tool A\nsay x\nplan p"):
            live.apply(event)
    async with connect(notebook) as client:
        loaded = Transcript((await client.load_session(session.id)).backlog())
    shown = [entry for entry in live.entries if not isinstance(entry, TurnEnd)]
    for transcript in (shown, loaded.entries):
        transcript[0].id, transcript[0].is_local = None, False  # type: ignore[union-attr]
    assert loaded.entries == shown
    assert loaded.commands == live.commands


async def test_a_prompt_the_agent_echoes_itself_is_not_told_twice(notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
        await session.prompt("echo hello\nsay hi")
    async with connect(notebook) as client:
        told = list((await client.load_session(session.id)).backlog())
    assert [update.content.text for update in told if isinstance(update, s.UserMessageChunk)] == ["hello"]


async def test_resuming_tells_nothing_and_the_state_is_back(notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
        await session.prompt("say something")
        await session.set_mode("code")
        await session.set_config_option("loud", True)
    async with connect(notebook) as client:
        resumed = await client.resume_session(session.id)
        assert [u for u in resumed.backlog() if not isinstance(u, s.AvailableCommandsUpdate)] == []
        assert resumed.modes and resumed.modes.current_mode_id == "code"
        assert [option.current_value for option in resumed.config_options] == [True]  # type: ignore[union-attr]
        spoken = await lived(resumed, "recall")
    assert [update.content.text for update in agents_own(spoken) if isinstance(update, s.AgentMessageChunk)] == [
        "say something"
    ]


async def test_capabilities_are_there_without_a_line_written(notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        offers = client.agent_capabilities
        sessions = offers.session_capabilities
        assert offers.load_session
        for capability in ("list", "delete", "resume", "close", "fork", "archive", "status", "title"):
            assert getattr(sessions, capability) is not None, capability
    async with connect(Notebook) as client:
        assert not client.agent_capabilities.load_session


async def test_sessions_are_listed_newest_first_with_their_titles(notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        first = await client.new_session("/tmp")
        await first.prompt("say hello   there\nsay more")
        second = await client.new_session("/")
        await second.prompt("title Chosen by the agent")
        listed = await client.list_sessions()
        assert [(one.session_id, one.title) for one in listed] == [
            (second.id, "Chosen by the agent"),
            (first.id, "say hello there"),
        ]
        assert [one.session_id for one in await client.list_sessions("/tmp")] == [first.id]
        assert listed[0].updated_at and listed[0].updated_at.endswith("+00:00")


async def test_a_title_the_user_gave_outlives_the_agents(notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
        assert await session.set_title("  my \n own ") == "my own"
        await session.prompt("title The agent's")
        assert [one.title for one in await client.list_sessions()] == ["my own"]
        with pytest.raises(InvalidParams):
            await session.set_title(" \n")


async def test_a_long_list_comes_in_pages(notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        ids = {(await client.new_session()).id for _ in range(230)}
        page = await client.agent.list_sessions(s.ListSessionsRequest())
        assert len(page.sessions) == 100
        assert page.next_cursor
        listed = [one.session_id for one in await client.list_sessions()]
        assert len(listed) == 230
        assert set(listed) == ids
        with pytest.raises(InvalidParams, match="cursor"):
            await client.agent.list_sessions(s.ListSessionsRequest(cursor="nonsense"))


async def test_an_archived_session_is_hidden_and_kept(notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
        await session.prompt("say kept")
        for _ in range(2):
            await client.agent.archive_session(s.ArchiveSessionRequest(session_id=session.id))
        assert await client.list_sessions() == []
        assert [one.archived for one in await client.list_sessions(archived="only")] == [True]
        assert len(await client.list_sessions(archived="include")) == 1
        with pytest.raises(InvalidParams, match="archived"):
            await client.list_sessions(archived="sometimes")
        with pytest.raises(ResourceNotFound):
            await session.prompt("say no")
        await client.agent.unarchive_session(s.UnarchiveSessionRequest(session_id=session.id))
        assert len(await client.list_sessions()) == 1
        told = list((await client.load_session(session.id)).backlog())
        assert any(isinstance(update, s.AgentMessageChunk) for update in told)


async def test_a_fork_goes_its_own_way(notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
        await session.prompt("say shared")
        fork = await session.fork()
        assert fork.id != session.id
        await fork.prompt("recall")
        await session.prompt("say alone")
    async with connect(notebook) as client:
        texts = []
        for id in (session.id, fork.id):
            told = (await client.load_session(id)).backlog()
            texts.append([u.content.text for u in told if isinstance(u, s.AgentMessageChunk)])
        assert texts == [["shared", "alone"], ["shared", "say shared"]]


async def test_a_session_that_is_not_there_is_not_found(notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        for call in (client.load_session, client.resume_session, client.fork_session):
            with pytest.raises(ResourceNotFound, match="Session not found"):
                await call("sess_nobody")
        with pytest.raises(ResourceNotFound):
            await client.agent.archive_session(s.ArchiveSessionRequest(session_id="sess_nobody"))
        await client.agent.delete_session(s.DeleteSessionRequest(session_id="sess_nobody"))


async def test_a_session_not_used_for_too_long_is_expired(tmp_path: Path) -> None:
    async with connect(durable(Notebook, Store(tmp_path / "store"))) as client:
        session = await client.new_session()
        await session.prompt("say old")
    late = durable(Notebook, Store(tmp_path / "store", max_age=timedelta(milliseconds=-1)))
    async with connect(late) as client:
        for call in (client.load_session, client.resume_session, client.fork_session):
            with pytest.raises(ResourceNotFound, match="Session expired"):
                await call(session.id)
        with pytest.raises(ResourceNotFound, match="Session expired"):
            await client.agent.set_title(s.SetSessionTitleRequest(session_id=session.id, title="new"))
        assert await client.list_sessions() == []
        new = await client.new_session()
        assert await new.set_title("one that is open is not too old") == "one that is open is not too old"
        await client.agent.delete_session(s.DeleteSessionRequest(session_id=session.id))
    async with connect(durable(Notebook, Store(tmp_path / "store"))) as client:
        assert [one.session_id for one in await client.list_sessions()] == [new.id]


async def test_the_sessions_of_one_agent_are_not_anothers(store: Store, notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
    async with connect(durable(Notebook, store, name="other")) as client:
        assert await client.list_sessions() == []
        with pytest.raises(ResourceNotFound):
            await client.load_session(session.id)


async def test_a_session_is_open_in_one_place_at_a_time(notebook: type[Agent]) -> None:
    async with connect(notebook) as first, connect(notebook) as second:
        session = await first.new_session()
        with pytest.raises(InvalidRequest, match="open in another connection"):
            await second.load_session(session.id)
        with pytest.raises(InvalidRequest, match="open in another connection"):
            await second.agent.delete_session(s.DeleteSessionRequest(session_id=session.id))
        await session.close()
        await second.load_session(session.id)


async def test_an_open_session_can_be_loaded_again(notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
        await session.prompt("say one")
        again = await client.load_session(session.id)
        assert [u.content.text for u in again.backlog() if isinstance(u, s.AgentMessageChunk)] == ["one"]
        assert [u.content.text for u in agents_own(await lived(again, "say two"))] == ["two"]  # type: ignore[union-attr]


async def test_a_session_loaded_while_a_turn_runs_is_told_first_and_goes_on(notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
        turn = asyncio.create_task(_finished(session.prompt("many 3000\nsay end")))
        loaded = await client.load_session(session.id)
        assert (await turn).stop_reason == "end_turn"
        async with asyncio.timeout(5):
            texts: list[str] = []
            async for update in loaded.updates():
                if isinstance(update, s.AgentMessageChunk):
                    texts.append(update.content.text)  # type: ignore[union-attr]
                if texts[-1:] == ["end"]:
                    break
    again = len(texts) - 1 - texts[::-1].index("word 0 ")  # the client has heard some of it before it asked
    assert texts[again:] == [*(f"word {number} " for number in range(3000)), "end"]


async def _finished(prompt: Prompt) -> s.PromptResponse:
    return await prompt


async def test_a_client_that_leaves_in_the_middle_leaves_an_interrupted_turn(notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
        turn = session.prompt("say begun\nwait")
        async with asyncio.timeout(5):
            async for update in turn:
                if isinstance(update, s.AgentMessageChunk):
                    break
    async with connect(notebook) as client:
        loaded = await client.load_session(session.id)
        texts = [u.content.text for u in loaded.backlog() if isinstance(u, s.AgentMessageChunk)]
        assert texts[0] == "begun"
        assert "Interrupted" in texts[-1]
        assert [u.content.text for u in agents_own(await lived(loaded, "say on"))] == ["on"]  # type: ignore[union-attr]


async def test_notices_are_shown_once_and_never_again(store: Store) -> None:
    class Noticing(Agent):
        async def answer(self, turn: Turn) -> None:
            await turn.session.notice("Careful")
            await turn.say("done")

    kept = durable(Noticing, store)
    async with connect(kept) as client:
        session = await client.new_session()
        assert any(isinstance(update, s.Notice) for update in await lived(session, "go"))
    async with connect(kept) as client:
        told = list((await client.load_session(session.id)).backlog())
    assert not any(isinstance(update, s.Notice) for update in told)


async def test_what_the_author_answers_stays_the_authors(store: Store) -> None:
    @durable(store=store)
    class Own(Agent):
        async def list_sessions(self, params: s.ListSessionsRequest) -> s.ListSessionsResponse:
            return s.ListSessionsResponse(sessions=[s.SessionInfo(session_id="mine", cwd="/")])

    async with connect(Own) as client:
        await client.new_session()
        assert [one.session_id for one in await client.list_sessions()] == ["mine"]


async def test_a_session_may_have_any_id_its_author_gives_it(store: Store) -> None:
    class Naming(Agent):
        async def new_session(self, params: s.NewSessionRequest) -> s.NewSessionResponse:
            session = await self.open_session('odd "id" \\ é', params)
            return s.NewSessionResponse(session_id=session.id)

        async def answer(self, turn: Turn) -> None:
            await turn.say("one")
            await turn.say("two")

    kept = durable(Naming, store)
    async with connect(kept) as client:
        session = await client.new_session()
        live = await lived(session, "go")
    async with connect(kept) as client:
        loaded = await client.load_session(session.id)
        assert agents_own(list(loaded.backlog())) == live
        assert len(await lived(loaded, "go")) == 2


async def test_an_update_with_line_breaks_in_it_is_told_again_like_any_other(store: Store) -> None:
    class Spacious(Agent):
        async def answer(self, turn: Turn) -> None:
            chunk = b'{\n"sessionUpdate": "agent_message_chunk",\n"content": {"type": "text", "text": "one"}\n}'
            await turn.session.update(s.Raw(chunk))
            await turn.say("two")

    kept = durable(Spacious, store)
    async with connect(kept) as client:
        session = await client.new_session()
        live = await lived(session, "go")
    async with connect(kept) as client:
        told = [*(await client.load_session(session.id)).backlog()]
    assert agents_own(told) == live
    assert len(live) == 2


async def test_an_id_that_is_taken_is_refused_and_nothing_else_happens(store: Store) -> None:
    class Naming(Agent):
        async def new_session(self, params: s.NewSessionRequest) -> s.NewSessionResponse:
            session = await self.open_session("always the same", params)
            return s.NewSessionResponse(session_id=session.id)

        async def answer(self, turn: Turn) -> None:
            await turn.say("fine")

    kept = durable(Naming, store)
    async with connect(kept) as client:
        await (await client.new_session()).prompt("go")
    async with connect(kept) as client:
        with pytest.raises(InvalidRequest, match="there is a session always the same already"):
            await client.new_session()
        assert len([*(await client.load_session("always the same")).backlog()]) == 2
    assert not list(store.path.glob("damaged-*"))


async def test_a_state_that_is_no_json_is_told_to_whoever_saves_it(store: Store) -> None:
    told: list[BaseException] = []

    class Odd(Agent):
        async def answer(self, turn: Turn) -> None:
            state = turn.session.state
            state.setdefault("odd", []).append(object())
            state["even"] = 2
            try:
                await turn.session.save()
            except TypeError as exc:
                told.append(exc)
            del state["odd"][:]
            await turn.say(str(sorted(state)))

    kept = durable(Odd, store)
    async with connect(kept) as client:
        session = await client.new_session()
        await session.prompt("go")
    assert "'odd' cannot be kept" in str(told)
    async with connect(kept) as client:
        resumed = await client.resume_session(session.id)
        spoken = await lived(resumed, "go")
    assert [update.content.text for update in spoken] == ["['even', 'odd']"]  # type: ignore[union-attr]


async def test_an_update_with_more_behind_it_is_kept_told_and_exported(store: Store, tmp_path: Path) -> None:
    class Adding(Agent):
        async def answer(self, turn: Turn) -> None:
            await turn.say("before")
            update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": turn.text}}
            for _ in range(2):  # the second begins as the one before did
                said = {"sessionId": turn.session.id, "update": update, "_meta": {"trace": 7}, "more": [1]}
                turn.client.notify("session/update", said)
            await turn.say("after")

    kept = durable(Adding, store)
    async with connect(kept) as client:
        session = await client.new_session("/")
        live = await lived(session, "added words")
    async with connect(kept) as client:
        assert agents_own((await client.load_session(session.id)).backlog()) == agents_own(live)
    with contextlib.closing(Database(store.path)) as db:
        summary = db.summary(session.id)
        words = "".join(told(db.lines(session.id, summary.head.last)))
        assert words.count("added words") == 3  # the prompt, and twice
        lines = list(exported(db, session.id))
    with contextlib.closing(Database(tmp_path / "other")) as other:
        imported(other, io.BytesIO(b"\n".join(lines)))
        assert list(exported(other, session.id)) == lines


def test_an_export_of_such_updates_as_they_once_were_kept_is_imported_and_told(tmp_path: Path) -> None:
    update = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"words"}}'
    lines = [b'{"event":{"event":"opened","agent":"a","cwd":"/"}}', b'{"update":%s,"_meta":{"trace":7}}' % update]
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    first, last = b'{"dragomanSession":1,"sessionId":"s"}', b'{"lines":2,"sha256":"%s"}' % digest.encode()
    with contextlib.closing(Database(tmp_path)) as db:
        imported(db, io.BytesIO(b"\n".join([first, *lines, last])))
        assert list(told(db.lines("s", 2))) == ["words"]
    assert list(told([[update + b',"_meta":{"trace":7}']])) == ["words"]  # in a store of that time


async def test_a_session_whose_id_has_to_be_escaped_is_kept(store: Store) -> None:
    class Named(Agent):
        async def new_session(self, params: s.NewSessionRequest) -> s.NewSessionResponse:
            session = await self.open_session("back\\slash", params)
            return s.NewSessionResponse(session_id=session.id)

        async def answer(self, turn: Turn) -> None:
            await turn.say("kept")

    kept = durable(Named, store)
    async with connect(kept) as client:
        live = await lived(await client.new_session("/"), "go")
    async with connect(kept) as client:
        assert agents_own((await client.load_session("back\\slash")).backlog()) == agents_own(live)


async def test_an_agent_without_a_store_saves_nothing_and_does_not_mind(store: Store) -> None:
    class Plain(Agent):
        async def answer(self, turn: Turn) -> None:
            await turn.session.save()
            await turn.say("fine")

    async with connect(Plain) as client:
        session = await client.new_session()
        assert len(await lived(session, "go")) == 1


async def test_a_turn_of_very_many_updates_is_whole(notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
        live = await lived(session, "many 5000")
    async with connect(notebook) as client:
        told = list((await client.load_session(session.id)).backlog())
    assert agents_own(told) == agents_own(live)
    assert len(agents_own(live)) == 5000


def test_a_durable_agent_loads_no_database_before_it_is_needed() -> None:
    program = "import sys, dragoman.store; print('sqlite3' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "False"
