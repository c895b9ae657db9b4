"""Whose files and terminals an agent behind a gateway gets."""

import asyncio
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman import Session
from dragoman import schema as s
from dragoman.errors import RpcError
from dragoman.gateway.access.checks import Checks
from dragoman.gateway.access.limits import Limits

from .house import Watcher, hosting

pytestmark = pytest.mark.usefixtures("nothing_left")


class Owner(Watcher):
    """A client that lends its own files."""

    async def read_text_file(self, params: s.ReadTextFileRequest) -> s.ReadTextFileResponse:
        return s.ReadTextFileResponse(content=f"{params.path} of {params.session_id}, at the client")

    async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
        raise NotImplementedError


async def prompted(session: Session, text: str) -> None:
    await session.prompt(text)


def said(watcher: Watcher, session: str) -> str:
    return b"".join(watcher.told[session]).decode()


async def test_the_host_lends_the_session_s_own_directory_and_no_other(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "note.txt").write_text("kept on the host")
    (tmp_path / "secret.txt").write_text("not for agents")
    checks = Checks(workspace=str(work))
    async with hosting(tmp_path / "state", checks=checks) as house, house.visit("ann", Owner()) as ann:
        session = await ann.new_session(work)
        await session.prompt(f"read {work}/note.txt")
        assert "kept on the host" in said(ann, session.id)
        await session.prompt("run echo from the host")
        assert "from the host" in said(ann, session.id)
        with pytest.raises(RpcError):
            await session.prompt(f"read {tmp_path}/secret.txt")
        assert "not for agents" not in said(ann, session.id)


async def test_what_the_host_is_not_sure_of_people_are_asked(tmp_path: Path) -> None:
    async with hosting(tmp_path, hosted={"preset": "ask"}) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        running = asyncio.ensure_future(prompted(session, f"write {tmp_path}/new.txt words"))
        async with asyncio.timeout(PATIENCE):
            request, answer = await ann.asked.get()
            assert request.session_id == session.id
            answer.set_result(next(o.option_id for o in request.options if o.kind == "allow_once"))
            await running
        assert (tmp_path / "new.txt").read_text() == "words"


async def test_the_client_that_owns_the_workspace_lends_it(tmp_path: Path) -> None:
    hosted = {"workspace": "client"}
    async with hosting(tmp_path, hosted=hosted) as house, house.visit("ann", Owner()) as ann:
        session = await ann.new_session(tmp_path)
        await session.prompt("read /anything.txt")
        assert f"/anything.txt of {session.id}, at the client" in said(ann, session.id)


async def test_without_the_client_that_owns_it_there_is_no_workspace(tmp_path: Path) -> None:
    limits = Limits(owner_seconds=0.1)
    async with hosting(tmp_path, hosted={"workspace": "client"}, limits=limits) as house, house.visit() as ann:
        async with house.visit("ann", Owner()) as owner:
            session = await owner.new_session(tmp_path)
        await ann.resume_session(session.id, tmp_path)
        with pytest.raises(RpcError, match="workspace"):
            await ann.session(session.id).prompt("read /anything.txt")


async def test_a_request_waits_for_the_client_that_owns_the_workspace_to_come_back(tmp_path: Path) -> None:
    async with hosting(tmp_path, hosted={"workspace": "client"}) as house, house.visit() as ann:
        async with house.visit("ann", Owner()) as owner:
            session = await owner.new_session(tmp_path)
        resumed = await ann.resume_session(session.id, tmp_path)
        reading = asyncio.ensure_future(prompted(resumed, "read /anything.txt"))
        await ann.until(lambda: ann.told.get(session.id))
        async with house.visit("ann", Owner()) as owner, asyncio.timeout(PATIENCE):
            await owner.resume_session(session.id, tmp_path)
            await reading
        assert f"/anything.txt of {session.id}, at the client" in said(ann, session.id)
