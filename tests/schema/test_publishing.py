"""The JSON Schemas that can be drawn of messages, held against the golden ones by a validator that is not ours."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from test_golden import STRUCTS, read_goldens

from dragoman import schema as s
from dragoman.schema.publishing import json_schema

GOLDENS = {name: messages for name, messages in read_goldens().items() if not name.startswith("v2.")}


@pytest.mark.parametrize("name", sorted(GOLDENS))
def test_every_golden_message_fits_the_schema_of_its_type(name: str) -> None:
    schema = json_schema(STRUCTS[name])
    Draft202012Validator.check_schema(schema)
    for message in GOLDENS[name]:
        Draft202012Validator(schema).validate(message)


@pytest.mark.parametrize(
    ("kind", "tag", "wrong"),
    [
        (s.ContentBlock, "type", {"type": "text"}),
        (s.ContentBlock, "type", {"type": "image", "data": "AA=="}),
        (s.ContentBlock, "type", {"type": "resource", "resource": {"uri": "file:///a"}}),
        (s.SessionUpdate, "sessionUpdate", {"sessionUpdate": "agent_message_chunk", "content": "text"}),
        (s.SessionUpdate, "sessionUpdate", {"sessionUpdate": "unheard_of"}),
    ],
)
def test_content_and_updates_fit_and_what_is_none_does_not(kind: Any, tag: str, wrong: dict[str, Any]) -> None:
    validator = Draft202012Validator(json_schema(kind))
    arms = [name for name, tp in STRUCTS.items() if "." not in name and tp in kind.__args__]
    assert len(arms) >= 5
    for message in (message for name in arms for message in GOLDENS[name]):
        assert tag in message
        validator.validate(message)
    assert not validator.is_valid(wrong)
