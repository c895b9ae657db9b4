"""Chooses the model: the user's choice, else one with a key, else a server on this machine, else none.

A model's name is `provider:model`.  `ollama`, `lmstudio`, `llamacpp`, `vllm` and `jan` are servers on this machine.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from ...foundation.suggesting import choices
from .port import KeyRefused, Model, ModelError

MODEL = "DRAGOMAN_MODEL"  # the variable that names the model
INSTALL = "pip install 'dragoman[coder]'"
NEXT_STEP = (
    "So no language model can do this. Run `dragoman agent coder --login` to enter a key, or set one, as in "
    "`export ANTHROPIC_API_KEY=…`; `/review` needs no model"
)
NO_MODEL = "there is no provider's key, such as ANTHROPIC_API_KEY, and no model server on this machine"
PROBE = 0.25  # seconds a server on this machine may take to be found
ANSWER = 2.0  # seconds it may then take to list its models
MOST = 512 * 1024  # bytes of that list


class Provider(Struct, frozen=True):
    """A provider reached with a key; the first of its models is the default.

    A provider with an address of its own speaks the Chat Completions API there.
    """

    title: str
    keys: tuple[str, ...]
    models: tuple[str, ...]
    address: str = ""


PROVIDERS: Mapping[str, Provider] = {
    "anthropic": Provider(
        "Anthropic", ("ANTHROPIC_API_KEY",), ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5")
    ),
    "openai": Provider("OpenAI", ("OPENAI_API_KEY",), ("gpt-5.5", "gpt-5.4-mini", "gpt-5.1-codex")),
    "google": Provider(
        "Google Gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), ("gemini-3.1-pro-preview", "gemini-3.8-flash")
    ),
    "openrouter": Provider(
        "OpenRouter", ("OPENROUTER_API_KEY",), ("anthropic/claude-sonnet-5.5", "openai/gpt-5.5", "qwen/qwen3-coder")
    ),
    "mistral": Provider("Mistral", ("MISTRAL_API_KEY",), ("codestral-latest", "mistral-large-latest")),
    "groq": Provider("Groq", ("GROQ_API_KEY",), ("openai/gpt-oss-120b",), "https://api.groq.com/openai/v1"),
    "xai": Provider("xAI", ("XAI_API_KEY",), ("grok-code-fast-1", "grok-4.7"), "https://api.x.ai/v1"),
    "deepseek": Provider("DeepSeek", ("DEEPSEEK_API_KEY",), ("deepseek-v4-pro", "deepseek-v4-flash")),
}
SERVERS: Mapping[str, tuple[str, int]] = {
    "ollama": ("Ollama", 11434),
    "lmstudio": ("LM Studio", 1234),
    "llamacpp": ("llama.cpp", 8080),
    "vllm": ("vLLM", 8000),
    "jan": ("Jan", 1337),
}
_SAME = {"google-gla": "google", "gemini": "google", "openai-responses": "openai"}
_CODERS = ("coder", "codestral", "devstral", "gpt-oss", "qwen3", "qwen", "glm", "llama3", "mistral")  # best first


class Choice(Struct, frozen=True):
    """A model and why it was chosen; without a name there is none."""

    name: str = ""
    why: str = ""
    base_url: str | None = None


async def chosen(
    wanted: str | None, keys: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> tuple[Choice, list[str]]:
    """The model to use and all that could be chosen instead; `keys` are the stored keys by provider."""
    there = [name for name in PROVIDERS if key_for(name, keys, environ)[0]]
    known = [f"{name}:{model}" for name in there for model in PROVIDERS[name].models]
    if wanted := wanted or environ.get(MODEL):
        return Choice(wanted, "chosen"), list(dict.fromkeys([wanted, *known]))
    found = await servers(environ)
    offered = [*known, *(choice.name for choice in found)]
    if there:
        where = key_for(there[0], keys, environ)[1]
        return Choice(known[0], f"there is a key for {PROVIDERS[there[0]].title} {where}"), offered
    return (found[0] if found else Choice(why=NO_MODEL)), offered


def why_unknown(name: str) -> str | None:
    """Why a name cannot be a model's; None if it may be one (only its provider knows)."""
    provider, separator, model = name.partition(":")
    if not separator or not provider or not model:
        usual = PROVIDERS["anthropic"].models[0]
        return f"{name!r} names no model: write it as provider:model, such as anthropic:{usual}"
    provider = _SAME.get(provider, provider.removesuffix("-chat"))
    if provider in PROVIDERS or provider in SERVERS:
        return None
    try:
        from pydantic_ai.providers import infer_provider_class

        infer_provider_class(provider)
    except ImportError:  # the library is not installed
        return None
    except ValueError:
        hint = choices(provider, [*PROVIDERS, *SERVERS])
        return f"there is no provider {provider!r}; {hint}"
    return None


def key_for(provider: str, keys: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """The key for a provider and where it comes from; both are empty if there is none."""
    provider = _SAME.get(provider, provider.removesuffix("-chat"))
    if provider in PROVIDERS:
        for variable in PROVIDERS[provider].keys:
            if value := environ.get(variable, ""):
                return value, f"in {variable}"
    return (keys[provider], "that was entered") if provider in keys else ("", "")


async def opened(choice: Choice, keys: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> Model:
    """The chosen model, ready for requests; its libraries are loaded here, in a thread."""
    provider, separator, model = choice.name.partition(":")
    if not separator or not model:
        raise ModelError(f"{choice.name!r} names no model: write it as provider:model, such as anthropic:…")
    provider = _SAME.get(provider, provider)
    known = PROVIDERS.get(provider.removesuffix("-chat"))
    key, _ = key_for(provider, keys, environ)
    base_url = choice.base_url or environ.get(_address_variable(provider), "")
    if known and not key and not base_url:  # servers elsewhere may need no key
        raise KeyRefused(f"there is no key for {known.title}; set {known.keys[0]}")
    base_url = base_url or (known.address if known else "")
    if provider in SERVERS:
        base_url = base_url or f"{_address(provider, environ)}/v1"
    compatible = (known is not None and bool(known.address)) or (provider in SERVERS and provider != "ollama")
    made: Model = await (await _loaded()).open_model(
        choice.name, provider, model, key=key, base_url=base_url, compatible=compatible
    )
    return made


async def _loaded() -> Any:
    """The module that imports the providers' libraries, which takes seconds."""
    try:
        return await asyncio.to_thread(_load)
    except ImportError as exc:
        raise ModelError(f"the providers' libraries are not installed ({exc.name}): {INSTALL}") from exc


def _load() -> Any:
    from . import providers

    return providers


# Servers on this machine


async def servers(environ: Mapping[str, str] = os.environ) -> list[Choice]:
    """The models of all servers found on loopback, those for code first."""
    asked = await asyncio.gather(*(_models_of(name, environ) for name in SERVERS))
    found = [choice for of_server in asked for choice in of_server]
    return sorted(found, key=lambda choice: _rank(choice.name))


def _rank(name: str) -> int:
    return next((i for i, word in enumerate(_CODERS) if word in name.lower()), len(_CODERS))


def _address_variable(provider: str) -> str:
    return f"{provider.removesuffix('-chat').upper()}_BASE_URL"


def _address(server: str, environ: Mapping[str, str]) -> str:
    """The address of a server, without the version at the start of its paths."""
    if base_url := environ.get(_address_variable(server)):
        return base_url.rstrip("/").removesuffix("/v1")
    if server == "ollama" and (host := environ.get("OLLAMA_HOST")):
        return host if "://" in host else f"http://{host}"
    return f"http://127.0.0.1:{SERVERS[server][1]}"


async def _models_of(server: str, environ: Mapping[str, str]) -> list[Choice]:
    address = _address(server, environ)
    if urlsplit(address).hostname not in ("127.0.0.1", "localhost", "::1"):
        return []  # only this machine is searched without being asked
    with contextlib.suppress(OSError, TimeoutError, ValueError, AttributeError, TypeError, KeyError):
        told = json.loads(await _get(f"{address}/{'api/tags' if server == 'ollama' else 'v1/models'}"))
        listed = told["models"] if server == "ollama" else told["data"]
        names = [str(entry["name" if server == "ollama" else "id"]) for entry in listed]
        why = f"{SERVERS[server][0]} runs on this machine"
        return [Choice(f"{server}:{name}", why, f"{address}/v1") for name in names if "embed" not in name]
    return []


async def _get(url: str) -> bytes:
    """The body of a small answer from this machine; raises OSError, TimeoutError or ValueError."""
    parts = urlsplit(url)
    async with asyncio.timeout(PROBE):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
    try:
        async with asyncio.timeout(ANSWER):
            writer.write(
                f"GET {parts.path} HTTP/1.0\r\nHost: {parts.netloc}\r\nAccept: application/json\r\n\r\n".encode()
            )
            answer = b""
            while len(answer) < MOST and (more := await reader.read(65536)):
                answer += more
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n", 1)[0] + b" ":
        raise ValueError("not an answer")
    return body
