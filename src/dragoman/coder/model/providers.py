"""The model port over the providers of pydantic-ai: one adapter for all of them."""

import asyncio
import base64
import contextlib
import inspect
import itertools
import json
import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct
from pydantic import ValidationError
from pydantic_ai import exceptions as failures
from pydantic_ai import messages as m
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model as ForeignModel
from pydantic_ai.models import ModelRequestParameters, infer_model
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from ..context.history import Media, Message, ModelInput, ModelReply, Part, TextPart, ToolOutcome, ToolUse
from .port import (
    Busy,
    CallGrew,
    CallStarted,
    Event,
    Finished,
    KeyRefused,
    ModelError,
    ModelRefused,
    ModelRequest,
    ModelSilent,
    Stop,
    TextDelta,
    Thought,
    TokenUsage,
    TooLong,
    ToolSpec,
    hung_up,
)

log = logging.getLogger("dragoman")

DEFAULT_WINDOW = 32_000  # tokens, for a model whose window is unknown
SILENCE = 300.0  # seconds a provider may take until its first word, and between two
MOST_PIECES = 10  # parts of an answer that a provider pauses while it searches
OK, TOO_LARGE = 200, 413
PASSING = (408, 409, 425)  # HTTP statuses of temporary failures, besides those that the library knows
REFUSED = (400, 415, 422)
OVERFLOWS = (  # words by which servers say that a request exceeds the window, where the library does not know them
    "exceed_context_size",  # llama.cpp
    "available context size",
    "exceed context window",  # llama-cpp-python
    "tokens when context",  # LM Studio
    "context length of only",
    "maximum prompt length",  # xAI
    "reduce your message size",  # Groq
    "tokens must be reduced",  # OpenAI, for a request above the limit of a minute
    "exceed context limit",  # Anthropic, with `max_tokens`
    "request_too_large",
    "maximum context length",  # vLLM, OpenRouter, DeepSeek, Mistral
    "context_length_exceeded",
    "context length exceeded",
)
_PASSING = (
    failures.ModelRateLimitError,
    failures.ModelUnavailableError,
    failures.ModelServerError,
    failures.ModelConnectionError,
)
_STOPS: dict[str | None, Stop] = {"length": "length", "content_filter": "refusal"}
_OUTCOMES = {"success": "success", "failed": "failed", "denied": "denied", "cancelled": "interrupted"}
_EFFORTS: dict[str, Any] = {"off": False, "low": "low", "medium": "medium", "high": "high"}


async def open_model(
    name: str, provider: str, model_name: str, *, key: str = "", base_url: str = "", compatible: bool = False
) -> "ProviderModel":
    """The model with a name; a `compatible` provider speaks OpenAI's Chat Completions API at `base_url`."""

    def made(library_name: str) -> Provider[Any]:
        if not compatible:
            return _provider(library_name, key, base_url)
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        return OpenAICompatibleProvider(provider, base_url=base_url, api_key=key or None)

    kind = f"{'openai-chat' if compatible else provider}:{model_name}"
    try:
        # In a thread: this loads the provider's own library, which takes seconds.
        model = await asyncio.to_thread(infer_model, kind, provider_factory=made)
        await asyncio.to_thread(_warm_up, model)
    except failures.UserError as exc:
        # The library's errors name its classes; our errors name a remedy.
        if "API" in exc.message and "environment variable" in exc.message:
            raise KeyRefused(f"there is no key for {name}") from exc
        raise ModelError(f"there is no model {name!r}: write it as provider:model") from exc
    except ImportError as exc:
        raise ModelError(f"{name} needs a library: pip install 'pydantic-ai-slim[{provider}]'") from exc
    except ValueError as exc:
        raise ModelError(f"there is no provider {provider!r}") from exc
    await model.__aenter__()
    return ProviderModel(name, model)


def _warm_up(model: ForeignModel) -> None:
    """Load the parts that the libraries would otherwise load, for seconds, during the first answer."""
    response = m.ModelResponse([m.TextPart("")], model_name=model.model_name, provider_name=model.system)
    _cost(response)  # reads the prices
    m.ModelMessagesTypeAdapter.dump_python([response], mode="json")
    # Not part of the library's interface: if it is missing, only the first answer is slower.
    with contextlib.suppress(Exception):
        if "responses" in type(model).__name__.lower():
            from openai._models import construct_type
            from openai.types import responses as r

            for event in ({"type": "response.created", "response": {"output": []}}, {"type": "response.completed"}):
                construct_type(type_=r.ResponseStreamEvent, value={**event, "sequence_number": 0})
            for kind in (r.ResponseOutputItemDoneEvent, r.Response, r.ResponseOutputMessage):
                kind.model_rebuild()


def _provider(name: str, key: str, base_url: str) -> Provider[Any]:
    """The library's provider with a name, with this key and at this address if one is given."""
    kind = infer_provider_class(name)
    accepted = inspect.signature(kind.__init__).parameters
    given = {"api_key": key} if key and "api_key" in accepted else {}
    if base_url and "base_url" in accepted:
        given["base_url"] = base_url
    elif base_url:  # its address is a fixed property
        kind = type(kind.__name__, (kind,), {"base_url": property(lambda _: base_url)})
    return kind(**given)


class ProviderModel:
    """A model of a provider; the provider's own form of a reply is kept and sent back unchanged."""

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
        # Before Gemini 3, Google accepts no other tools beside its search.
        combines = bool(profile.get("google_supports_tool_combination", True))
        self._searches_web = combines and WebSearchTool in profile.get("supported_native_tools", ())

    async def close(self) -> None:
        await self._model.__aexit__(None, None, None)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Event, None]:
        # Retries are made and reported by `retrying`, not by the library.
        settings = ModelSettings(timeout=SILENCE, cache=True)
        if "max_retries" not in self._model.unsupported_settings:
            settings["max_retries"] = 0
        if request.effort in _EFFORTS:
            settings["thinking"] = _EFFORTS[request.effort]
        parameters = ModelRequestParameters(
            function_tools=self._tools(request),
            native_tools=[WebSearchTool()] if request.may_search_web and self._searches_web else [],
        )
        messages, pieces = list(_messages(request)), list[m.ModelResponse]()
        while not pieces or (pieces[-1].state == "suspended" and len(pieces) < MOST_PIECES):
            stage = _Stage()
            with _translated(self.name, stage):
                asking = model_request_stream(
                    self._model, [*messages, *pieces], model_settings=settings, model_request_parameters=parameters
                )
                async with asking as response:
                    stage.has_begun = True
                    ids: dict[int, str] = {}
                    async for happened in response:
                        for event in _events(happened, ids):
                            yield event
                    pieces.append(response.get())
            if not _is_whole(pieces[-1]):
                raise hung_up(self.name)
        answer = _joined_answer(pieces)
        yield Finished(_reply(answer), _STOPS.get(answer.finish_reason, "end"), _tokens(answer), _cost(answer))

    def _tools(self, request: ModelRequest) -> list[ToolDefinition]:
        """The tools in the provider's form, each checked by itself; raises Refused with the name of a bad one."""
        tools = [_tool(tool) for tool in request.tools]
        for tool in tools:
            try:
                self._model.customize_request_parameters(ModelRequestParameters(function_tools=[tool]))
            except Exception as exc:  # the library may fail in any way on a foreign schema
                raise ModelRefused(
                    f"the schema of {tool.name} cannot be sent to {self.name}: {_line(exc)}"
                ) from exc
        return tools


# What is sent


def _tool(tool: ToolSpec) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters)
    )


def _messages(request: ModelRequest) -> Iterator[m.ModelMessage]:
    for message in _joined(request.history):
        match message:
            case ModelInput():
                yield m.ModelRequest(
                    [m.UserPromptPart(list(map(_content, message.told)))], instructions=request.instructions
                )
            case ModelReply():
                yield _response(message)
            case _:
                returns = [part for result in message.results for part in _returned(result)]
                yield m.ModelRequest(returns, instructions=request.instructions)


def _joined(history: Sequence[Message]) -> Iterator[Message]:
    """The history with consecutive user messages merged, because some models need strict turns."""
    for together, run in itertools.groupby(history, key=lambda message: isinstance(message, ModelInput)):
        if together:
            yield ModelInput([part for message in run if isinstance(message, ModelInput) for part in message.told])
        else:
            yield from run


def _content(part: Part) -> "m.UserContent":
    if isinstance(part, TextPart):
        return part.text
    return m.BinaryContent(base64.b64decode(part.data), media_type=part.media_type)


def _returned(result: ToolOutcome) -> Iterator[m.ModelRequestPart]:
    media = [part for part in result.parts if isinstance(part, Media)]
    text = "\n".join(part.text for part in result.parts if isinstance(part, TextPart))
    outcome: Any = _OUTCOMES[result.outcome]
    yield m.ToolReturnPart(result.name, text or "(no output)", result.id, outcome=outcome)
    if media:
        yield m.UserPromptPart([f"What {result.name} gave:", *map(_content, media)])


def _response(reply: ModelReply) -> m.ModelResponse:
    if reply.original is not None:
        with contextlib.suppress(ValidationError):  # written by another version: the plain form is used
            (found,) = m.ModelMessagesTypeAdapter.validate_python(reply.original)
            if isinstance(found, m.ModelResponse):
                return replace(found, parts=[part for part in found.parts if not _is_blank(part)])
    said = [m.TextPart(reply.text)] if reply.text else []
    return m.ModelResponse([*said, *(m.ToolCallPart(call.name, call.arguments, call.id) for call in reply.calls)])


def _is_blank(part: m.ModelResponsePart) -> bool:
    """Whether a part is white space alone, which a provider writes but does not accept."""
    return isinstance(part, m.TextPart) and not part.content.strip()


# Received events


def _events(happened: Any, ids: dict[int, str]) -> Iterator[Event]:
    match happened:
        case m.PartStartEvent(part=m.TextPart(content=text)) if text:
            yield TextDelta(text)
        case m.PartDeltaEvent(delta=m.TextPartDelta(content_delta=text)) if text:
            yield TextDelta(text)
        case m.PartStartEvent(part=m.ThinkingPart(content=text)) if text:
            yield Thought(text)
        case m.PartDeltaEvent(delta=m.ThinkingPartDelta(content_delta=text)) if text:
            yield Thought(text)
        case m.PartStartEvent(index=index, part=m.ToolCallPart() as part):
            ids[index] = part.tool_call_id
            yield CallStarted(part.tool_call_id, part.tool_name)
            if part.args:
                yield CallGrew(part.tool_call_id, part.args_as_json_str())
        case m.PartEndEvent(part=m.NativeToolCallPart() as part):  # tools that the provider runs itself
            yield Thought(f"{part.tool_name} {part.args_as_json_str()}\n\n")
        case m.PartDeltaEvent(index=index, delta=m.ToolCallPartDelta(args_delta=str(more))) if index in ids:
            yield CallGrew(ids[index], more)


def _is_whole(answer: m.ModelResponse) -> bool:
    """Whether the provider reported the end of its answer; the library calls a cut-off answer complete, too."""
    said = (answer.provider_details or {}).get("finish_reason")
    return answer.finish_reason == "content_filter" or (bool(said) and answer.finish_reason != "error")


def _joined_answer(pieces: Sequence[m.ModelResponse]) -> m.ModelResponse:
    """The parts of an answer that its provider paused, as one answer."""
    *paused, last = pieces
    parts = [part for piece in pieces for part in piece.parts]
    return replace(last, parts=parts, usage=sum((piece.usage for piece in paused), last.usage)) if paused else last


def _reply(answer: m.ModelResponse) -> ModelReply:
    text = "".join(part.content for part in answer.parts if isinstance(part, m.TextPart))
    calls = [
        ToolUse(
            part.tool_call_id, part.tool_name, part.args if isinstance(part.args, str) else part.args_as_json_str()
        )
        for part in answer.parts
        if isinstance(part, m.ToolCallPart)
    ]
    return ModelReply(text, calls, m.ModelMessagesTypeAdapter.dump_python([answer], mode="json"))


def _tokens(answer: m.ModelResponse) -> TokenUsage:
    used = answer.usage
    return TokenUsage(
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


class _Stage(Struct):
    has_begun: bool = False  # the provider has accepted the request


@contextlib.contextmanager
def _translated(name: str, stage: _Stage) -> Iterator[None]:
    """Our error for a failure of the library: one line, with a remedy."""
    try:
        yield
    except ModelError:
        raise
    except failures.ModelAPIError as exc:
        raise _failure(name, stage, exc) from exc
    except (failures.UnexpectedModelBehavior, failures.UserError) as exc:
        if isinstance(exc, failures.UnexpectedModelBehavior) and not stage.has_begun:
            raise hung_up(name) from exc  # the stream ended before any event
        raise _unusable(name, stage, exc.message[:200]) from exc
    except Exception as exc:  # from the libraries below, for an unexpected request or answer
        log.debug("%s: %r", name, exc, exc_info=True)
        if _is_broken_off(exc):
            raise hung_up(name) from exc
        raise _unusable(name, stage, _line(exc)) from exc


def _is_broken_off(exc: BaseException | None) -> bool:
    """Whether a stream broke off: the connection, or an event in it."""
    while exc is not None:
        if isinstance(exc, json.JSONDecodeError | ConnectionError):
            return True
        exc = exc.__cause__ or exc.__context__
    return False


def _failure(name: str, stage: _Stage, exc: failures.ModelAPIError) -> ModelError:
    words = _why(exc)
    status = exc.status_code if isinstance(exc, failures.ModelHTTPError) else 0
    match exc:
        case failures.ModelAuthenticationError():
            return KeyRefused(f"{name} does not accept the key")
        case failures.ModelQuotaExceededError():
            return ModelError(f"the account for {name} has no credit left")
        case failures.ModelNotFoundError():
            return ModelError(f"the provider has no model {name!r}")
        case failures.ModelContextWindowExceededError():
            return TooLong(f"the conversation is longer than {name} takes")
    if status == TOO_LARGE or any(phrase in f"{words} {exc.body}".lower() for phrase in OVERFLOWS):
        return TooLong(f"the conversation is longer than {name} takes: {words}")
    if isinstance(exc, failures.ModelRequestTimeout):
        return ModelSilent(name, SILENCE)
    if isinstance(exc, _PASSING) or status in PASSING:
        return Busy(f"{name} is not answering: {words}", exc.retry_after)
    if stage.has_begun and status in (0, OK):  # the rest of its answer cannot be read
        return hung_up(name)
    if status in REFUSED:
        return ModelRefused(f"{name} refused the request: {words}")
    return ModelError(f"{name} refused the request: {words}")


def _unusable(name: str, stage: _Stage, words: str) -> ModelError:
    if stage.has_begun:
        return ModelError(f"{name} gave an unusable answer: {words}")
    return ModelRefused(f"the request cannot be sent to {name}: {words}")


def _why(exc: failures.ModelAPIError) -> str:
    """The provider's own message if it has one, in one bounded line."""
    body: Any = exc.body
    if isinstance(body, dict):
        body = body.get("error", body)
    said = body.get("message") if isinstance(body, dict) else body if isinstance(body, str) else None
    return " ".join(str(said or exc.message).split())[:300]


def _line(exc: Exception) -> str:
    return " ".join(f"{type(exc).__name__}: {exc}".split())[:200]
