"""Small model servers on loopback, one per wire format: each answers what a script says, streamed."""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dragoman.coder.context.titles import ORDER

Frame = tuple[str, dict[str, Any]]  # the event's name, where the format has names, and its data


@dataclass(frozen=True)
class Answer:
    """What the model says; a call is a tool's name and the JSON text of its arguments."""

    text: str = ""
    calls: Sequence[tuple[str, str]] = ()
    stop: str = "end"  # or length, refusal
    hangs: bool = False  # after the text nothing more comes
    ids: Sequence[str] = ()  # of the calls, where the server would not number them itself


@dataclass(frozen=True)
class Fault:
    """What goes wrong: rate_limit, overloaded, overflow, key."""

    kind: str


@dataclass(frozen=True)
class Plain:
    """A response as it is: its status, and its body, which is a stream where it is text."""

    status: int
    body: dict[str, Any] | str


@dataclass(frozen=True)
class Cut:
    """An answer of which only the first bytes of the stream come: `how` says what the connection does then."""

    answer: Answer
    frames: int  # that come whole
    half: bool = False  # and half of the next one
    how: str = "close"  # or chunked: its last chunk is missing; or reset


Step = Answer | Fault | Plain | Cut


def answer(text: str = "", *calls: tuple[str, dict[str, Any] | str], stop: str = "end") -> Answer:
    """An answer with calls whose arguments are objects, or text that need not be JSON."""
    written = [(name, given if isinstance(given, str) else json.dumps(given)) for name, given in calls]
    return Answer(text, written, stop)


def _pieces(text: str, size: int = 7) -> Iterator[str]:
    yield from (text[i : i + size] for i in range(0, len(text), size))


def _event(frame: Frame) -> bytes:
    name, data = frame
    return f"{f'event: {name}' if name else ''}\ndata: {json.dumps(data)}\n\n".lstrip().encode()


class ModelServer:
    """Answers requests with the steps of a script, in one provider's format; keeps what it was asked."""

    model = "test-model"
    title = "What was asked for"  # what it calls a conversation
    provider = ""
    closing = 1  # how many frames the end of an answer takes, from the one that says why it ends
    statuses = {"rate_limit": 429, "overloaded": 503, "overflow": 400, "key": 401}

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.requests: list[dict[str, Any]] = []
        self.heads: list[str] = []  # the request lines and headers they came with
        self.hung_up = asyncio.Event()
        self.speaking = asyncio.Event()
        self.port = 0
        self._numbers = iter(range(1, 1_000_000))

    @property
    def name(self) -> str:
        return f"{self.provider}:{self.model}"

    @property
    def environ(self) -> dict[str, str]:
        """What leads the agent here."""
        raise NotImplementedError

    def frames(self, step: Answer) -> Iterator[Frame]:
        """An answer as the provider streams it."""
        raise NotImplementedError

    def opening(self, step: Answer) -> Iterator[Frame]:
        """The same up to where an answer that hangs stops."""
        for frame in self.frames(step):
            yield frame
            if step.text and step.text[-7:] in json.dumps(frame[1], ensure_ascii=False):
                return

    def fault(self, kind: str) -> dict[str, Any]:
        raise NotImplementedError

    def refusal(self, request: dict[str, Any]) -> str | None:
        """Why a request is refused whatever the script says; here none is."""
        return None

    def refused(self, words: str) -> dict[str, Any]:
        """A refusal for what is in a request, as the provider words it."""
        return {"error": {"message": words, "type": "invalid_request_error", "code": None, "param": None}}

    def id_of(self, step: Answer, place: int, usual: str) -> str:
        """The id of a call."""
        return step.ids[place] if step.ids else usual

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["ModelServer"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            request, *lines = head.split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            if request.startswith("GET"):
                await self._plain(writer, 200, self.listing())
                return
            if json.dumps(ORDER)[1:-1].encode() in body:  # of no interest to a script
                await self._stream(reader, writer, Answer(self.title))
                return
            self.requests.append(json.loads(body))
            self.heads.append(head)
            if why := self.refusal(self.requests[-1]):
                await self._plain(writer, 400, self.refused(why))
                return
            step = self.steps.pop(0) if self.steps else Answer("The script is over.")
            if isinstance(step, Fault):
                await self._plain(writer, self.statuses[step.kind], self.fault(step.kind))
            elif isinstance(step, Plain):
                await self._plain(writer, step.status, step.body)
            elif isinstance(step, Cut):
                await self._cut(writer, step)
            else:
                await self._stream(reader, writer, step)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up.set()
        finally:
            writer.close()

    def listing(self) -> dict[str, Any]:
        return {"data": [{"id": self.model}], "models": [{"name": self.model}]}

    async def _plain(self, writer: asyncio.StreamWriter, status: int, told: dict[str, Any] | str) -> None:
        body = (told if isinstance(told, str) else json.dumps(told)).encode()
        kind = "text/event-stream" if isinstance(told, str) else "application/json"
        writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nRetry-After: 0\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            + body
        )
        await writer.drain()

    async def _cut(self, writer: asyncio.StreamWriter, step: Cut) -> None:
        written = list(map(_event, self.frames(step.answer)))
        body = b"".join(written[: step.frames])
        if step.half:
            body += written[step.frames][: len(written[step.frames]) // 2]
        chunked = step.how == "chunked"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
        writer.write(b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"Connection: close\r\n\r\n")
        writer.write(b"%x\r\n%s\r\n" % (len(body), body) if chunked and body else body)
        await writer.drain()
        if step.how == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, step: Answer) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for frame in self.opening(step) if step.hangs else self.frames(step):
            writer.write(_event(frame))
            await writer.drain()
        if step.hangs:
            self.speaking.set()
            if not await reader.read(1):
                self.hung_up.set()
            return
        if self.provider not in ("anthropic", "google"):
            writer.write(b"data: [DONE]\n\n")
        await writer.drain()

    def told(self) -> list[str]:
        """Every request as text, to look for words in."""
        return [json.dumps(request, ensure_ascii=False) for request in self.requests]


class Anthropic(ModelServer):
    model = "claude-haiku-4-5"
    closing = 2
    provider = "anthropic"

    @property
    def environ(self) -> dict[str, str]:
        return {
            "ANTHROPIC_API_KEY": "sk-test-anthropic-0001",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{self.port}",
        }

    def frames(self, step: Answer) -> Iterator[Frame]:
        usage = {"input_tokens": 100, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": self.model, "content": []}
        yield (
            "message_start",
            {"type": "message_start", "message": {**message, "usage": usage, "stop_reason": None}},
        )
        index = 0
        if step.text:
            yield self._start(index, {"type": "text", "text": ""})
            for piece in _pieces(step.text):
                yield self._delta(index, {"type": "text_delta", "text": piece})
            yield "content_block_stop", {"type": "content_block_stop", "index": index}
            index += 1
        for place, (name, arguments) in enumerate(step.calls):
            id = self.id_of(step, place, f"toolu_{next(self._numbers)}")
            yield self._start(index, {"type": "tool_use", "id": id, "name": name, "input": {}})
            for piece in _pieces(arguments):
                yield self._delta(index, {"type": "input_json_delta", "partial_json": piece})
            yield "content_block_stop", {"type": "content_block_stop", "index": index}
            index += 1
        stops = {"end": "tool_use" if step.calls else "end_turn", "length": "max_tokens", "refusal": "refusal"}
        delta = {"stop_reason": stops[step.stop], "stop_sequence": None}
        yield "message_delta", {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 20}}
        yield "message_stop", {"type": "message_stop"}

    def _start(self, index: int, block: dict[str, Any]) -> Frame:
        return "content_block_start", {"type": "content_block_start", "index": index, "content_block": block}

    def _delta(self, index: int, delta: dict[str, Any]) -> Frame:
        return "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}

    def fault(self, kind: str) -> dict[str, Any]:
        words = {
            "rate_limit": ("rate_limit_error", "slow down"),
            "overloaded": ("overloaded_error", "overloaded"),
            "overflow": ("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
            "key": ("authentication_error", "invalid x-api-key"),
        }[kind]
        return {"type": "error", "error": {"type": words[0], "message": words[1]}}

    def refused(self, words: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": words}}


class OpenAIChat(ModelServer):
    model = "gpt-5.4-mini"
    closing = 2
    provider = "openai-chat"

    @property
    def environ(self) -> dict[str, str]:
        return {"OPENAI_API_KEY": "sk-test-openai-0001", "OPENAI_BASE_URL": f"http://127.0.0.1:{self.port}/v1"}

    def frames(self, step: Answer) -> Iterator[Frame]:
        for piece in _pieces(step.text):
            yield self._chunk({"role": "assistant", "content": piece})
        for index, (name, arguments) in enumerate(step.calls):
            id = self.id_of(step, index, f"call_{next(self._numbers)}")
            start = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
            yield self._chunk({"tool_calls": [start]})
            for piece in _pieces(arguments):
                yield self._chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        stops = {"end": "tool_calls" if step.calls else "stop", "length": "length", "refusal": "content_filter"}
        yield self._chunk({}, stops[step.stop])
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        yield "", {**self._head(), "choices": [], "usage": usage}

    def _head(self) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": self.model}

    def _chunk(self, delta: dict[str, Any], stop: str | None = None) -> Frame:
        return "", {**self._head(), "choices": [{"index": 0, "delta": delta, "finish_reason": stop}]}

    def fault(self, kind: str) -> dict[str, Any]:
        code, words = {
            "rate_limit": ("rate_limit_exceeded", "slow down"),
            "overloaded": ("server_error", "overloaded"),
            "overflow": ("context_length_exceeded", "This model's maximum context length is 128000 tokens."),
            "key": ("invalid_api_key", "Incorrect API key provided"),
        }[kind]
        return {"error": {"message": words, "type": "invalid_request_error", "code": code, "param": None}}


class OpenAIResponses(OpenAIChat):
    closing = 1
    provider = "openai"

    def frames(self, step: Answer) -> Iterator[Frame]:
        self._number = 0
        yield self._event("response.created", response=self._response([], "in_progress"))
        output: list[dict[str, Any]] = []
        if step.text:
            yield from self._message(step.text, output)
        for place, (name, arguments) in enumerate(step.calls):
            number = next(self._numbers)
            yield from self._call(
                name, arguments, self.id_of(step, place, f"call_{number}"), f"fc_{number}", output
            )
        why = {"length": "max_output_tokens", "refusal": "content_filter"}.get(step.stop)
        done = self._response(output, "incomplete" if why else "completed")
        if why:
            done["incomplete_details"] = {"reason": why}
            yield self._event("response.incomplete", response=done)
        else:
            yield self._event("response.completed", response=done)

    def _message(self, text: str, output: list[dict[str, Any]]) -> Iterator[Frame]:
        place = {"output_index": len(output), "item_id": "msg_1", "content_index": 0}
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        part = {"type": "output_text", "text": "", "annotations": []}
        yield self._event("response.output_item.added", output_index=len(output), item=item)
        yield self._event("response.content_part.added", **place, part=part)
        for piece in _pieces(text):
            yield self._event("response.output_text.delta", **place, delta=piece, logprobs=[])
        yield self._event("response.output_text.done", **place, text=text, logprobs=[])
        item = {**item, "status": "completed", "content": [{**part, "text": text}]}
        yield self._event("response.output_item.done", output_index=len(output), item=item)
        output.append(item)

    def _call(
        self, name: str, arguments: str, call_id: str, id: str, output: list[dict[str, Any]]
    ) -> Iterator[Frame]:
        item = {"id": id, "type": "function_call", "call_id": call_id, "name": name, "arguments": ""}
        place = {"output_index": len(output)}
        yield self._event("response.output_item.added", **place, item={**item, "status": "in_progress"})
        for piece in _pieces(arguments):
            yield self._event("response.function_call_arguments.delta", **place, item_id=id, delta=piece)
        yield self._event(
            "response.function_call_arguments.done", **place, item_id=id, arguments=arguments, name=name
        )
        item = {**item, "arguments": arguments, "status": "completed"}
        yield self._event("response.output_item.done", **place, item=item)
        output.append(item)

    def _event(self, kind: str, **data: Any) -> Frame:
        self._number += 1
        return kind, {"type": kind, "sequence_number": self._number, **data}

    def _response(self, output: list[dict[str, Any]], status: str) -> dict[str, Any]:
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120, **details}
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": self.model,
            "output": list(output),
            "status": status,
            "usage": usage if status != "in_progress" else None,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }


class Google(ModelServer):
    model = "gemini-3.8-flash"
    provider = "google"

    @property
    def environ(self) -> dict[str, str]:
        return {"GEMINI_API_KEY": "test-google-0001", "GOOGLE_BASE_URL": f"http://127.0.0.1:{self.port}"}

    def frames(self, step: Answer) -> Iterator[Frame]:
        for piece in _pieces(step.text):
            yield self._chunk([{"text": piece}])
        for name, arguments in step.calls:
            yield self._chunk([{"functionCall": {"name": name, "args": json.loads(arguments)}}])
        stops = {"end": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}
        yield self._chunk([], stops[step.stop])

    def _chunk(self, parts: list[dict[str, Any]], stop: str | None = None) -> Frame:
        candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
        if stop:
            candidate["finishReason"] = stop
        usage = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}
        return "", {"candidates": [candidate], "usageMetadata": usage, "modelVersion": self.model}

    def fault(self, kind: str) -> dict[str, Any]:
        code, status, words = {
            "rate_limit": (429, "RESOURCE_EXHAUSTED", "slow down"),
            "overloaded": (503, "UNAVAILABLE", "The model is overloaded."),
            "overflow": (
                400,
                "INVALID_ARGUMENT",
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            ),
            "key": (401, "UNAUTHENTICATED", "API key not valid."),
        }[kind]
        return {"error": {"code": code, "message": words, "status": status}}

    def refused(self, words: str) -> dict[str, Any]:
        return {"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}


class Ollama(OpenAIChat):
    model = "qwen3-coder"
    provider = "ollama"

    @property
    def environ(self) -> dict[str, str]:
        return {"OLLAMA_HOST": f"127.0.0.1:{self.port}"}


class Compatible(OpenAIChat):
    """Another provider that speaks OpenAI's Chat Completions API."""

    model = "some-model"
    key = ""  # the variable that has its key
    version = "/v1"  # what its address ends with

    @property
    def environ(self) -> dict[str, str]:
        keys = {self.key: f"sk-{self.provider}-0001"} if self.key else {}
        return {f"{self.provider.upper()}_BASE_URL": f"http://127.0.0.1:{self.port}{self.version}", **keys}


class Mistral(Compatible):
    provider = "mistral"
    key = "MISTRAL_API_KEY"
    version = ""

    def frames(self, step: Answer) -> Iterator[Frame]:
        """All calls come whole and together."""
        whole = [
            {"index": i, "id": f"call{next(self._numbers):05}", "function": {"name": name, "arguments": arguments}}
            for i, (name, arguments) in enumerate(step.calls)
        ]
        *words, end, usage = super().frames(replace(step, calls=()))
        yield from words
        yield self._chunk({"content": "", "tool_calls": whole}, "tool_calls") if whole else end
        yield usage


def compatible(provider: str, **facts: Any) -> type[Compatible]:
    """A server for one of them."""
    return type(provider, (Compatible,), {"provider": provider, **facts})


WIRES: Sequence[type[ModelServer]] = (Anthropic, OpenAIChat, OpenAIResponses, Google, Ollama)
