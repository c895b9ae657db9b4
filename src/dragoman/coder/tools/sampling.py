"""MCP servers' requests to the model, which the user has to allow and the model answers without tools."""

from ...agent.turn import Turn
from ...host.display import COMMAND_LIMIT, visible
from ...mcp import McpFailure, SamplingRequest
from ...mcp.contents import words_of
from ..context.history import Message, ModelInput, ModelReply
from ..context.prompts import parts_of
from ..markdown import fenced
from ..model.port import Finished, Model, ModelError, ModelRequest, answer_of


async def sampled(turn: Turn, model: Model, request: SamplingRequest) -> Finished:
    """The model's answer; raises McpFailure if the user refuses the request or the model does not answer."""
    shown = "\n".join(f"{message.role}: {words_of(message.content)}" for message in request.messages)
    words = visible("\n".join(filter(None, [request.system_prompt, shown])), limit=COMMAND_LIMIT, lines=True)
    title = f"{visible(request.server, limit=200)} asks {model.name}"
    async with turn.tool(title, kind="think") as call:
        await call.text(fenced(words))
        if not await turn.ask(call):
            raise McpFailure("the user did not allow this question to the model")
        history: list[Message] = []
        for message in request.messages:
            if message.role == "assistant":
                history.append(ModelReply(words_of(message.content)))
            else:
                history.append(ModelInput(parts_of([message.content], model.takes)[0]))
        try:
            return await answer_of(model, ModelRequest(request.system_prompt, history, purpose="sampling"))
        except ModelError as exc:
            raise McpFailure(str(exc)) from exc
