"""Plans: the one of a session, replaced whole, and several by id."""

from dragoman import Client, Transcript
from dragoman import schema as s

from .reading import open_session, play, tell


async def test_a_plan_replaces_the_one_before(connect):
    async with connect() as client:
        session = await open_session(client)
        first, second, _ = events = await play(session, "plan")
        assert [entry.status for entry in first.entries] == ["in_progress", "pending"]
        assert [entry.status for entry in second.entries] == ["completed", "in_progress"]
        assert [entry.priority for entry in second.entries] == ["high", "low"]
        transcript = Transcript(events)
        assert transcript.plan.plan == second
        assert len(transcript.entries) == 2  # the plan, and the turn's end


async def test_several_plans_live_side_by_side(connect):
    async with connect() as client:
        session = await open_session(client)
        items, file, markdown, _ = await play(session, "plans")
        assert items.plan.entries == [s.PlanEntry(content="Look", priority="medium", status="pending")]
        assert file.plan == s.PlanFile(plan_id="plan-2", uri="file:///plan.md")
        assert markdown.plan == s.PlanMarkdown(plan_id="plan-3", content="# Plan\n")


async def test_a_plan_can_be_taken_away(connect):
    async with connect() as client:
        session = await open_session(client)
        transcript = Transcript(await play(session, "plans\nplan_removed plan-3\nplan_removed plan-2"))
        assert transcript.plan.id == "plan-1"
        for event in await play(session, "plan_removed plan-1\nplan_removed never-there"):
            transcript.apply(event)
        assert transcript.plan is None


class Planless(Client):
    def capabilities(self):
        return s.ClientCapabilities()


async def test_plans_by_id_are_only_for_clients_that_take_them(connect):
    async with connect(client=Planless()) as client:
        session = await open_session(client)
        assert await tell(session, "plans") == "The client does not offer plan."
        assert await tell(session, "plan_removed") == "The client does not offer plan."
        assert isinstance((await play(session, "plan"))[0], s.Plan)
