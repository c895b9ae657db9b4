"""Questions that are equal: shown once with their number, and a yes is spent by one operation."""

import asyncio
from pathlib import Path

import pytest
from torture.errands import answers, hosting
from torture.host_permissions import permits, request

from dragoman import schema as s
from dragoman.host import Host
from dragoman.host.operations import Execute, FileRead, FileWrite
from dragoman.host.permissions import ApprovalStore, Permissions, Question
from dragoman.host.permissions.asking import Questions
from dragoman.host.permissions.claims import about_claim, chosen
from dragoman.host.permissions.subjects import Subject

pytestmark = pytest.mark.usefixtures("nothing_left")

APPEND = ("sh", "-c", "echo ran >> runs")


class Screen:
    """Gives the answers it was told, one after another; the first once it is `ready`."""

    def __init__(self, *choices: str, ready: asyncio.Event | None = None) -> None:
        self.choices = list(choices)
        self.seen: list[Question] = []
        self.shown = asyncio.Event()
        self._ready = ready

    async def __call__(self, question: Question) -> str | None:
        self.seen.append(question)
        self.shown.set()
        if self._ready:
            async with asyncio.timeout(20):
                await self._ready.wait()
        return self.choices.pop(0)


def together(count: int, permissions: Permissions, root: Path) -> "list[asyncio.Task[bool]]":
    """So many equal operations at once."""

    async def decided() -> bool:
        return (await permissions.decide("s", Execute(argv=APPEND, cwd=str(root)), workspace=root)).allowed

    return [asyncio.create_task(decided()) for _ in range(count)]


class Counting(Host):
    """Counts the commands it is asked to run."""

    asked_for = 0
    all_there: asyncio.Event

    async def create_terminal(self, params: s.CreateTerminalRequest) -> s.CreateTerminalResponse:
        self.asked_for += 1
        if self.asked_for == 20:
            self.all_there.set()
        return await super().create_terminal(params)


async def test_allow_once_runs_a_command_once_however_often_it_was_asked_for(project: Path) -> None:
    all_there = asyncio.Event()
    screen = Screen("allow_once", *["reject_once"] * 20, ready=all_there)
    host = Counting(asker=screen)
    host.all_there = all_there
    create = ["terminal/create", {"command": APPEND[0], "args": list(APPEND[1:])}]
    async with hosting(host, project) as session:
        replies = await answers(session, {"all": [create] * 20})
        created = [reply["result"]["terminalId"] for reply in replies if "result" in reply]
        await answers(session, [["terminal/wait_for_exit", {"terminalId": id}] for id in created])
    assert len(created) == 1
    assert [reply["error"][1] for reply in replies if "error" in reply] == ["not_permitted"] * 19
    assert (project / "runs").read_text() == "ran\n"


async def test_equal_questions_are_shown_once_with_their_number(tmp_path: Path) -> None:
    screen = Screen("allow_once_each")
    decided = await asyncio.gather(*together(20, Permissions(asker=screen), tmp_path))
    (question,) = screen.seen
    assert decided == [True] * 20
    assert question.count == 20
    assert "asked 20 times at once" in question.warnings[-1]
    assert [option.label for option in question.options[:2]] == ["Allow once", "Allow once (all 20)"]
    assert [option.times for option in question.options[:2]] == [1, 20]


async def test_one_question_alone_offers_no_number(tmp_path: Path) -> None:
    screen = Screen("allow_once")
    assert await asyncio.gather(*together(1, Permissions(asker=screen), tmp_path)) == [True]
    assert [option.id for option in screen.seen[0].options if option.allows] == ["allow_once", "allow_session"]
    assert screen.seen[0].warnings == ()


async def test_a_yes_to_one_of_several_has_the_others_asked_again(tmp_path: Path) -> None:
    screen = Screen("allow_once", "allow_once", "allow_once_each")
    decided = await asyncio.gather(*together(10, Permissions(asker=screen), tmp_path))
    assert decided == [True] * 10
    assert [question.count for question in screen.seen] == [10, 9, 8]


async def test_a_no_is_for_all_that_ask_the_same(tmp_path: Path) -> None:
    screen = Screen("reject_once")
    assert not any(await asyncio.gather(*together(10, Permissions(asker=screen), tmp_path)))
    assert len(screen.seen) == 1


async def test_a_yes_for_all_does_not_reach_who_came_after_it_was_shown(tmp_path: Path) -> None:
    late_are_there = asyncio.Event()
    screen = Screen("allow_once_each", "reject_once", ready=late_are_there)
    permissions = Permissions(asker=screen)
    early = together(3, permissions, tmp_path)
    await screen.shown.wait()
    late = together(2, permissions, tmp_path)
    await asyncio.sleep(0)  # each has got as far as waiting for an answer
    late_are_there.set()
    assert await asyncio.gather(*early) == [True] * 3
    assert await asyncio.gather(*late) == [False] * 2
    assert [question.count for question in screen.seen] == [3, 2]


async def test_a_yes_is_not_given_to_those_who_stopped_waiting(tmp_path: Path) -> None:
    one_is_gone = asyncio.Event()
    screen = Screen("allow_once", "reject_once", ready=one_is_gone)
    tasks = together(3, Permissions(asker=screen), tmp_path)
    await screen.shown.wait()
    tasks[0].cancel()
    await asyncio.wait(tasks[:1])
    one_is_gone.set()
    assert await asyncio.gather(*tasks[1:]) == [True, False]
    assert [question.count for question in screen.seen] == [3, 1]


async def test_an_answer_for_a_session_is_for_all_that_wait(tmp_path: Path) -> None:
    screen = Screen("allow_session")
    permissions = Permissions(asker=screen, store=ApprovalStore(tmp_path / "approvals.json"))
    assert await asyncio.gather(*together(10, permissions, tmp_path)) == [True] * 10
    assert len(screen.seen) == 1
    assert len(permissions.approvals()) == 1


async def test_an_agents_equal_requests_get_one_yes_each() -> None:
    screen = Screen(*["agent_2"] * 5)
    permissions = Permissions(asker=screen)
    params = request(title="deploy")
    responses = await asyncio.gather(*(permissions.answer(params) for _ in range(5)))
    assert [permits(response, params) for response in responses] == [True] * 5
    assert len(screen.seen) == 5


async def test_a_yes_to_all_of_an_agents_equal_requests_is_the_option_it_offered() -> None:
    screen = Screen("agent_2", "agent_2_each")
    params = request(title="deploy")
    question, questions = about_claim(params, Subject()), Questions(screen)
    replies = await asyncio.gather(*(questions.ask(question) for _ in range(5)))
    assert [question.count for question in screen.seen] == [5, 4]
    assert [option.id for option in screen.seen[0].options][:3] == ["agent_1", "agent_2", "agent_2_each"]
    options = [chosen(params, reply.option) for reply in replies]
    assert [option and option.option_id for option in options] == ["allow_once"] * 5


async def test_the_same_write_with_another_diff_is_another_question(tmp_path: Path) -> None:
    screen = Screen("allow_once_each", "reject_once")
    permissions = Permissions(asker=screen)
    write = FileWrite(path=f"{tmp_path}/a", digest="d")
    first, second = await asyncio.gather(
        permissions.decide("s", write, workspace=tmp_path, detail="-one\n+new"),
        permissions.decide("s", write, workspace=tmp_path, detail="-two\n+new"),
        return_exceptions=True,
    )
    assert [question.detail for question in screen.seen] == ["-one\n+new", "-two\n+new"]
    assert [question.count for question in screen.seen] == [1, 1]
    assert not second
    assert not first  # an option that was not offered is no answer


async def test_few_operations_wait_for_one_answer(tmp_path: Path) -> None:
    screen = Screen("allow_once_each")
    decided = await asyncio.gather(*together(400, Permissions(asker=screen), tmp_path))
    assert sum(decided) == 256
    assert len(screen.seen) == 1


async def test_without_a_workspace_nothing_is_inside_one() -> None:
    for preset in ("allow-reads", "allow-edits"):
        permissions = Permissions(preset)
        for operation in (FileRead(path="/etc/hostname"), FileWrite(path="/etc/cron.d/x", digest="d")):
            assert not await permissions.decide("s", operation)
        read = FileRead(path="/srv/shared/a")
        assert await permissions.decide("s", read, directories=["/srv/shared"])
