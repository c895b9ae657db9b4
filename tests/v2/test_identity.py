"""There and back again: what one version says, the other carries, whatever it is."""

import json
import os
import shutil
import subprocess
import typing
from pathlib import Path
from typing import Any

import pytest
from between import EVERYTHING, Between
from generating import JSON, messages
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from dragoman import codec, schema
from dragoman.dialects.v2.patches import FileTexts, make_patch, read_patch
from dragoman.dialects.v2.translator import V2
from dragoman.schema import v2

EXAMPLES = settings(
    max_examples=int(os.environ.get("V2_EXAMPLES", "20")),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),  # to make a nested message smaller takes minutes
)


def variants(package: Any, *without: str) -> list[Any]:
    """The kinds of session update, but for those that only mean something in a turn."""
    arms = [arm for arm in typing.get_args(package.SessionUpdate) if arm is not schema.Raw]
    return [pytest.param(arm, id=arm.__name__) for arm in arms if arm.__name__ not in without]


def on_the_wire(message: Any) -> Any:
    return tidy(json.loads(codec.encode(message)))


def tidy(value: Any) -> Any:
    """A message without a `_meta` that says nothing, which is as good as none."""
    if isinstance(value, list):
        return [tidy(item) for item in value]
    if isinstance(value, dict):
        return {name: tidy(member) for name, member in value.items() if name != "_meta" or member != {}}
    return value


def has_mode(update: Any) -> bool:
    """Whether one of its options is the mode, which is more than an option in version 1."""
    options = update.get("configOptions") or ()
    return any(isinstance(option, dict) and option.get("category") == "mode" for option in options)


@pytest.mark.parametrize("kind", variants(schema))
def test_an_update_of_version_1_passes_through_version_2(kind: Any) -> None:
    @EXAMPLES
    @given(messages(kind))
    def holds(message: Any) -> None:
        update = on_the_wire(message)
        assume(not has_mode(update))
        wire = Between()
        if kind is schema.ToolCallUpdated:
            first = {"sessionUpdate": "tool_call", "toolCallId": update["toolCallId"], "title": "t"}
            wire.heard(wire.said(first)[0])
        (between,) = wire.said(update)
        assert wire.heard(between) == [update]
        assert not wire.lost()

    holds()


@pytest.mark.parametrize("offers", [EVERYTHING, {}], ids=["everything", "nothing"])
@pytest.mark.parametrize("kind", variants(v2, "StateUpdated"))
def test_an_update_of_version_2_passes_through_version_1(kind: Any, offers: Any) -> None:
    """Also to a client that takes next to nothing: what it is not shown, it is still handed."""

    @EXAMPLES
    @given(messages(kind))
    def holds(message: Any) -> None:
        update = on_the_wire(message)
        assume(not has_mode(update))
        assume(offers or not any(option.get("type") == "boolean" for option in update.get("configOptions") or ()))
        wire = Between(offers)
        assert [said for heard in wire.heard(update) for said in wire.said(heard)] == [update]
        assert wire.lost() <= set(V2.losses)

    holds()


@pytest.mark.parametrize("kind", variants(v2, "StateUpdated"))
def test_what_version_1_hears_it_can_read(kind: Any) -> None:
    @EXAMPLES
    @given(messages(kind))
    def holds(message: Any) -> None:
        for heard in Between().heard(on_the_wire(message)):
            params = codec.encode({"sessionId": "s", "update": heard})
            read = codec.decode(params, schema.SessionNotification)
            assert heard["sessionUpdate"] in str(on_the_wire(read))

    holds()


@EXAMPLES
@given(messages(schema.ClientCapabilities), messages(schema.AgentCapabilities))
def test_capabilities_of_version_1_pass_through_version_2(ours: Any, theirs: Any) -> None:
    wire = Between(on_the_wire(ours), on_the_wire(theirs))
    assert wire.at_agent.client_offers == on_the_wire(ours)
    assert wire.welcome["result"]["agentCapabilities"] == on_the_wire(theirs)


@pytest.mark.parametrize(
    ("kind", "method"),
    [(schema.NewSessionRequest, "new"), (schema.ForkSessionRequest, "fork"), (schema.ListSessionsRequest, "list")],
)
def test_a_request_of_version_1_passes_through_version_2(kind: Any, method: str) -> None:
    @EXAMPLES
    @given(messages(kind))
    def holds(message: Any) -> None:
        params = on_the_wire(message)
        wire = Between(agent={"sessionCapabilities": {"fork": {}, "list": {}}})
        (heard,) = wire.to_agent({"id": 1, "method": f"session/{method}", "params": params})
        assert heard["params"] == params

    holds()


# Whatever a peer sends

METHODS = sorted({*V2.to_agent, *V2.to_client, *(call.name for call in V2.to_agent.values() if call.name)})


@pytest.mark.parametrize("method", [*METHODS, "session/update", "session/cancel", "$/cancel_request"])
def test_what_makes_no_sense_is_answered_or_passed_on(method: str) -> None:
    @EXAMPLES
    @given(JSON | st.fixed_dictionaries({"sessionId": JSON, "update": JSON, "prompt": JSON, "value": JSON}))
    def holds(params: Any) -> None:
        wire = Between()
        for translator in (wire.at_client, wire.at_agent):
            for turn in (translator.inward, translator.outward):
                message = {"jsonrpc": "2.0", "method": method, "params": params}
                turn(message)
                done = turn({**message, "id": 7})
                assert [*done.onward, *done.back]

    holds()


# Patches

LINES = st.text(st.sampled_from("ab-+@\\ \r\n"), max_size=30)


@EXAMPLES
@given(st.none() | LINES, LINES)
def test_a_patch_holds_both_texts(old: str | None, new: str) -> None:
    assert read_patch(make_patch("/a/b.py", old, new)) == [FileTexts("/a/b.py", old, new)]


def test_a_long_text_is_not_compared_line_by_line() -> None:
    old = "".join(f"{number}\n" for number in range(2000))
    new = old.replace("1000\n", "changed\n")
    patch = make_patch("/a", old, new)
    assert read_patch(patch) == [FileTexts("/a", old, new)]
    assert "-1000\n+changed\n" in patch


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
@pytest.mark.parametrize(("old", "new"), [("a\nb\nc", "a\nB\nc\nd\n"), (None, "new\n"), ("a\r\nb\n", "b\n")])
def test_git_applies_our_patches(tmp_path: Path, old: str | None, new: str) -> None:
    file = tmp_path / "a.txt"
    if old is not None:
        file.write_bytes(old.encode())
    patch = make_patch("/a.txt", old, new).encode()
    subprocess.run(["git", "apply", "--unsafe-paths", "-"], cwd=tmp_path, input=patch, check=True)
    assert file.read_bytes() == new.encode()
