"""Logins: the user chooses one of the agent's methods."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from ... import schema as s
from ...errors import AuthRequired, Error
from ..headless.wording import failure_told
from ..model.parts import PendingQuestion, QuestionChoice
from .host import ScreenHost

RunHere = Callable[[Sequence[str], Mapping[str, str]], Awaitable[int]]  # runs a program at the user's terminal


class AgentLogin:
    """Lets the user log in to an agent."""

    def __init__(self, host: ScreenHost, notice: Callable[[str, str], None]) -> None:
        self._host, self._notice = host, notice
        self.run_here: RunHere | None = None  # None if the screen cannot lend its terminal

    async def log_in(self, wanted: AuthRequired) -> None:
        """Let the user choose a method and log in; raises `wanted` if there is no method or the user declines."""
        agent, offers = self._host.launch, [way for way in self._host.auth_methods if not isinstance(way, s.Raw)]
        is_near = self.run_here is not None and not agent.url
        ways = {way.id: way for way in offers if is_near or not isinstance(way, s.AuthMethodTerminal)}
        if not ways:
            raise wanted
        choices = [QuestionChoice(id=id, label=way.name or id, allows=True) for id, way in ways.items()]
        pending = PendingQuestion(
            id="",
            kind="login",
            title="The agent wants you to log in",
            text="\n".join(f"{way.name}: {way.description}" for way in ways.values() if way.description),
            choices=[*choices, QuestionChoice(id="", label="Not now")],
        )
        answer = await self._host.put(pending, lambda _: "not logged in")
        if not answer.choice:
            raise wanted
        way = ways[answer.choice]
        if isinstance(way, s.AuthMethodTerminal):
            await self._at_terminal(way)
            return
        try:
            await self._host.authenticate(way.id)
        except AuthRequired:
            raise
        except Error as exc:
            self._notice(f"the login failed: {failure_told(exc, agent, self._host)}", "error")

    async def _at_terminal(self, way: s.AuthMethodTerminal) -> None:
        """Run the agent's own program at the user's terminal."""
        assert self.run_here is not None
        agent = self._host.launch
        command = [*agent.argv, *(way.args or ())]
        if status := await self.run_here(command, {**agent.environment, **(way.env or {})}):
            self._notice(f"the login failed: the agent's own program ended with status {status}", "error")
