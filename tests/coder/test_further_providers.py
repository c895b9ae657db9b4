"""Providers and local servers that speak nearly the same: where each is reached, its key, a turn with tools."""

from pathlib import Path

import pytest

from dragoman.coder.model.choice import chosen

from .desk import calls, said, updates
from .model_servers import Mistral, ModelServer, OpenAIChat, answer, compatible
from .talking import talking

pytestmark = pytest.mark.usefixtures("collected")

WITH_KEY = {
    "openrouter": compatible("openrouter", key="OPENROUTER_API_KEY", model="vendor/some-model"),
    "mistral": Mistral,
    "groq": compatible("groq", key="GROQ_API_KEY"),
    "xai": compatible("xai", key="XAI_API_KEY"),
    "deepseek": compatible("deepseek", key="DEEPSEEK_API_KEY"),
}
ON_THIS_MACHINE = {name: compatible(name) for name in ("lmstudio", "llamacpp", "vllm", "jan")}


@pytest.mark.parametrize("name", [*WITH_KEY, *ON_THIS_MACHINE])
async def test_a_turn_with_tools_goes_to_its_address_with_its_key_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("first line\n")
    (tmp_path / "b.txt").write_text("other line\n")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")  # never for anybody but OpenAI
    both = answer("Reading. ", ("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"}))
    wire = {**WITH_KEY, **ON_THIS_MACHINE}[name]
    async with talking(wire, tmp_path, monkeypatch, both, answer("Done.")) as (session, client, server):
        response = await session.prompt("Read both")
    assert response.stop_reason == "end_turn" and response.usage is not None
    assert said(updates(client)).endswith("Reading. Done.")
    assert [shown["status"] for shown in calls(client).values()] == ["completed", "completed"]
    assert "first line" in server.told()[1] and "other line" in server.told()[1]
    assert [request["model"] for request in server.requests] == [wire.model] * 2
    for head in server.heads:
        assert head.startswith("POST /v1/chat/completions ")
        assert "sk-of-somebody-else" not in head
        assert (f"Bearer sk-{name}-0001" in head) == (name in WITH_KEY)


@pytest.mark.parametrize("wire", [OpenAIChat, compatible("groq")], ids=["openai-chat", "groq"])
async def test_at_another_address_no_key_may_be_needed(
    wire: type[ModelServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Open(wire):  # type: ignore[misc, valid-type]
        @property
        def environ(self) -> dict[str, str]:
            return {name: value for name, value in super().environ.items() if name.endswith("_BASE_URL")}

    async with talking(Open, tmp_path, monkeypatch, answer("Hello.")) as (session, client, _):
        assert (await session.prompt("Hi")).stop_reason == "end_turn"
    assert said(updates(client)).endswith("Hello.")


@pytest.mark.parametrize("name", ON_THIS_MACHINE)
async def test_a_server_on_this_machine_is_found_with_its_models(name: str) -> None:
    server: ModelServer = ON_THIS_MACHINE[name]()
    async with server.running():
        choice, models = await chosen(None, {}, {"OLLAMA_HOST": "127.0.0.1:9", **server.environ})
    assert choice.name == f"{name}:some-model" in models
    assert choice.why.endswith("runs on this machine")
