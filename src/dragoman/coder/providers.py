"""The model port over the providers of pydantic-ai: one adapter for all of them."""

import asyncio
import base64
import contextlib
import inspect
import itertools
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_ai import exceptions as failures
from pydantic_ai import messages as m
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model as ForeignModel
from pydantic_ai.models import ModelRequestParameters, infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from .history import Asked, Call, Media, Message, Part, Reply, Result, Text
from .model import (
    Busy,
    CallGrew,
    CallStarted,
    Event,
    Finished,
    KeyRefused,
    ModelError,
    Request,
    Said,
    Stop,
    Thought,
    Tokens,
    TooLong,
    ToolSpec,
)

DEFAULT_WINDOW = 32_000  # tokens, for a model nobody knows the window of
SILENCE = 300.0  # seconds a provider may take until its first word, and between two
_STOPS: dict[str | None, Stop] = {"length": "length", "content_filter": "refusal"}
_OUTCOMES = {"success": "success", "failed": "failed", "denied": "denied", "cancelled": "interrupted"}
_EFFORTS: dict[str, Any] = {"off": False, "low": "low", "medium": "medium", "high": "high"}


async def open_model(
    name: str, provider: str, model_name: str, *, key: str = "", base_url: str = "", compatible: bool = False
) -> "ProviderModel":
    """A model by its name; a `compatible` provider speaks OpenAI's Chat Completions API at `base_url`."""

    def made(library_name: str) -> Provider[Any]:
        if not compatible:
            return _provider(library_name, key, base_url)
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        return OpenAICompatibleProvider(provider, base_url=base_url, api_key=key or None)

    kind = f"{'openai-chat' if compatible else provider}:{model_name}"
    try:
        # In a thread: this loads the provider's own library, which takes seconds.
        model = await asyncio.to_thread(infer_model, kind, provider_factory=made)
    except failures.UserError as exc:
        # The library's own words name its classes; ours say what to do.
        if "API" in exc.message and "environment variable" in exc.message:
            raise KeyRefused(f"there is no key for {name}") from exc
        raise ModelError(f"there is no model {name!r}: write it as provider:model") from exc
    except ImportError as exc:
        raise ModelError(f"{name} needs a library: pip install 'pydantic-ai-slim[{provider}]'") from exc
    except ValueError as exc:
        raise ModelError(f"there is no provider {provider!r}") from exc
    await model.__aenter__()
    return ProviderModel(name, model)


def _provider(name: str, key: str, base_url: str) -> Provider[Any]:
    """The library's provider of a name, with this key and at this address where one is given."""
    kind = infer_provider_class(name)
    accepted = inspect.signature(kind.__init__).parameters
    given = {"api_key": key} if key and "api_key" in accepted else {}
    if base_url and "base_url" in accepted:
        given["base_url"] = base_url
    elif base_url:  # it has one address, which it asks itself for
        kind = type(kind.__name__, (kind,), {"base_url": property(lambda _: base_url)})
    return kind(**given)


class ProviderModel:
    """A model of some provider, whose own form of a reply is kept, to be sent back as it was."""

    def __init__(self, name: str, model: ForeignModel) -> None:
        self.name = name
        self._model = model
        profile = model.profile
        self.window = model.context_window or DEFAULT_WINDOW
        taken = {
            "image": profile.get("supports_image_input", True),
            "audio": profile.get("supports_audio_file_input", False),
            "document": profile.get("supports_document_input", True),
        }
        self.takes = frozenset(word for word, does in taken.items() if does)

    async def close(self) -> None:
        await self._model.__aexit__(None, None, None)

    async def stream(self, request: Request) -> AsyncGenerator[Event, None]:
        # A request is read to its end or hung up on, so retries are ours to make and to tell of.
        settings = ModelSettings(timeout=SILENCE, cache=True)
        if "max_retries" not in self._model.unsupported_settings:
            settings["max_retries"] = 0
        if request.effort in _EFFORTS:
            settings["thinking"] = _EFFORTS[request.effort]
        parameters = ModelRequestParameters(function_tools=[_tool(tool) for tool in request.tools])
        with _translated(self.name):
            asking = model_request_stream(
                self._model,
                list(_messages(request)),
                model_settings=settings,
                model_request_parameters=parameters,
            )
            async with asking as response:
                ids: dict[int, str] = {}
                async for happened in response:
                    for event in _events(happened, ids):
                        yield event
                answer = response.get()
            yield Finished(_reply(answer), _STOPS.get(answer.finish_reason, "end"), _tokens(answer), _cost(answer))


# What is sent


def _tool(tool: ToolSpec) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters)
    )


def _messages(request: Request) -> Iterator[m.ModelMessage]:
    for message in _joined(request.history):
        match message:
            case Asked(parts=parts):
                yield m.ModelRequest(
                    [m.UserPromptPart(list(map(_content, parts)))], instructions=request.instructions
                )
            case Reply():
                yield _response(message)
            case _:
                returns = [part for result in message.results for part in _returned(result)]
                yield m.ModelRequest(returns, instructions=request.instructions)


def _joined(history: Sequence[Message]) -> Iterator[Message]:
    """The history with what the user said twice in a row as one message: some models take turns strictly."""
    for together, run in itertools.groupby(history, key=lambda message: isinstance(message, Asked)):
        if together:
            yield Asked([part for message in run if isinstance(message, Asked) for part in message.parts])
        else:
            yield from run


def _content(part: Part) -> "m.UserContent":
    if isinstance(part, Text):
        return part.text
    return m.BinaryContent(base64.b64decode(part.data), media_type=part.media_type)


def _returned(result: Result) -> Iterator[m.ModelRequestPart]:
    media = [part for part in result.parts if isinstance(part, Media)]
    text = "\n".join(part.text for part in result.parts if isinstance(part, Text))
    outcome: Any = _OUTCOMES[result.outcome]
    yield m.ToolReturnPart(result.name, text or "(no output)", result.id, outcome=outcome)
    if media:
        yield m.UserPromptPart([f"What {result.name} gave:", *map(_content, media)])


def _response(reply: Reply) -> m.ModelResponse:
    if reply.original is not None:
        with contextlib.suppress(ValidationError):  # written by another version: its plain form does
            (found,) = m.ModelMessagesTypeAdapter.validate_python(reply.original)
            if isinstance(found, m.ModelResponse):
                return found
    said = [m.TextPart(reply.text)] if reply.text else []
    return m.ModelResponse([*said, *(m.ToolCallPart(call.name, call.arguments, call.id) for call in reply.calls)])


# What is received


def _events(happened: Any, ids: dict[int, str]) -> Iterator[Event]:
    match happened:
        case m.PartStartEvent(part=m.TextPart(content=text)) if text:
            yield Said(text)
        case m.PartDeltaEvent(delta=m.TextPartDelta(content_delta=text)) if text:
            yield Said(text)
        case m.PartStartEvent(part=m.ThinkingPart(content=text)) if text:
            yield Thought(text)
        case m.PartDeltaEvent(delta=m.ThinkingPartDelta(content_delta=text)) if text:
            yield Thought(text)
        case m.PartStartEvent(index=index, part=m.ToolCallPart() as part):
            ids[index] = part.tool_call_id
            yield CallStarted(part.tool_call_id, part.tool_name)
            if part.args:
                yield CallGrew(part.tool_call_id, part.args_as_json_str())
        case m.PartDeltaEvent(index=index, delta=m.ToolCallPartDelta(args_delta=str(more))) if index in ids:
            yield CallGrew(ids[index], more)


def _reply(answer: m.ModelResponse) -> Reply:
    text = "".join(part.content for part in answer.parts if isinstance(part, m.TextPart))
    calls = [
        Call(
            part.tool_call_id, part.tool_name, part.args if isinstance(part.args, str) else part.args_as_json_str()
        )
        for part in answer.parts
        if isinstance(part, m.ToolCallPart)
    ]
    return Reply(text, calls, m.ModelMessagesTypeAdapter.dump_python([answer], mode="json"))


def _tokens(answer: m.ModelResponse) -> Tokens:
    used = answer.usage
    return Tokens(
        used.input_tokens,
        used.output_tokens,
        used.cache_read_tokens,
        used.cache_write_tokens,
        int(used.details.get("reasoning_tokens", 0)),
    )


def _cost(answer: m.ModelResponse) -> float | None:
    try:
        return float(answer.cost().total_price)
    except (LookupError, ValueError, AssertionError):  # a local server, a model without a price
        return None


@contextlib.contextmanager
def _translated(name: str) -> Iterator[None]:
    """The library's failures as ours: one line, and what would help."""
    try:
        yield
    except failures.ModelContextWindowExceededError as exc:
        raise TooLong(f"the conversation is longer than {name} takes") from exc
    except failures.ModelAuthenticationError as exc:
        raise KeyRefused(f"{name} does not accept the key") from exc
    except failures.ModelQuotaExceededError as exc:
        raise ModelError(f"the account for {name} has no credit left") from exc
    except failures.ModelNotFoundError as exc:
        raise ModelError(f"the provider has no model {name!r}") from exc
    except (
        failures.ModelRateLimitError,
        failures.ModelUnavailableError,
        failures.ModelServerError,
        failures.ModelConnectionError,
        failures.ModelRequestTimeout,
    ) as exc:
        raise Busy(f"{name} is not answering: {_why(exc)}", exc.retry_after) from exc
    except failures.ModelAPIError as exc:
        raise ModelError(f"{name} refused the request: {_why(exc)}") from exc
    except (failures.UnexpectedModelBehavior, failures.UserError) as exc:
        raise ModelError(f"{name} answered what cannot be used: {exc.message[:200]}") from exc


def _why(exc: failures.ModelAPIError) -> str:
    """The provider's own words where it has some, in one bounded line."""
    body: Any = exc.body
    if isinstance(body, dict):
        body = body.get("error", body)
    said = body.get("message") if isinstance(body, dict) else None
    return " ".join(str(said or exc.message).split())[:300]
