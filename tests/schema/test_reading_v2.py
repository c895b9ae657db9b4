"""How types of version 2 are read when a peer gets something wrong, where that differs from version 1."""

from typing import Any

import pytest
from msgspec import UNSET, Raw

from dragoman import codec
from dragoman.schema import v2

ENTRY = b'{"content":"a","priority":"low","status":"pending"}'


@pytest.mark.parametrize(
    ("tp", "message", "place"),
    [
        (v2.PromptRequest, b'{"sessionId":"s","prompt":[]}', "$.prompt"),
        (v2.PromptRequest, b'{"sessionId":"s","prompt":[{"type":"text"}]}', "$.prompt[0]"),
        (v2.PlanItems, b'{"type":"items","planId":"p","entries":7}', "$.entries"),
        (v2.StringMultiSelectItems, b'{"type":"string","enum":[]}', "$.enum"),
        (v2.StringPropertySchema, b'{"type":"string","oneOf":[]}', "$.oneOf"),
        (v2.TerminalSize, b'{"cols":0,"rows":24}', "$.cols"),
        (v2.InitializeRequest, b'{"protocolVersion":2}', "info"),
        (v2.ContentChunk, b'{"content":{"type":"text","text":"a"}}', "messageId"),
        (v2.CancelRequestNotification, b'{"requestId":null}', "$.requestId"),
        (v2.RequestPermissionRequest, b'{"sessionId":"s","title":"t","options":[]}', "$.options"),
        (v2.SetSessionConfigOptionRequest, b'{"sessionId":"s","configId":"c","type":"id","value":true}', "'id'"),
    ],
)
def test_a_value_that_matters_is_refused_by_name(tp: Any, message: bytes, place: str) -> None:
    with pytest.raises(codec.Invalid) as refused:
        codec.decode(message, tp)
    assert place in str(refused.value)


def test_a_list_that_must_be_one_loses_only_the_items_that_do_not_fit() -> None:
    plan = codec.decode(b'{"type":"items","planId":"p","entries":[7,%s]}' % ENTRY, v2.PlanItems)
    assert [entry.content for entry in plan.entries] == ["a"]


def test_a_snapshot_of_the_background_is_whole_or_not_told() -> None:
    state = b'{"state":"running","background":[{"type":"terminal","terminalId":"t"},%s]}'
    assert codec.decode(state % b"7", v2.RunningStateUpdate).background is None
    assert codec.decode(state % b'{"type":"_swarm","n":1}', v2.RunningStateUpdate).background is not None
    assert codec.decode(b'{"state":"running","background":[]}', v2.RunningStateUpdate).background == []


def test_a_prompt_may_hold_what_nobody_knows_yet() -> None:
    message = b'{"sessionId":"s","prompt":[{"type":"hologram","depth":1e2 }]}'
    request = codec.decode(message, v2.PromptRequest)
    assert isinstance(request.prompt[0], Raw)
    assert codec.encode(request) == message


def test_a_known_variant_with_a_bad_payload_does_not_pass_for_an_unknown_one() -> None:
    outcome = b'{"outcome":{"outcome":%s}}'
    with pytest.raises(codec.Invalid):
        codec.decode(outcome % b'"selected"', v2.RequestPermissionResponse)
    assert isinstance(codec.decode(outcome % b'"_later"', v2.RequestPermissionResponse).outcome, Raw)


def test_left_out_null_and_a_value_are_three_things() -> None:
    message = b'{"toolCallId":"c","title":null,"status":"_stuck"}'
    update = codec.decode(message, v2.ToolCallUpdate)
    assert (update.title, update.name, update.meta, update.status) == (None, UNSET, UNSET, "_stuck")
    assert codec.encode(codec.decode(b'{"_meta":null,"toolCallId":"c"}', v2.ToolCallUpdate)) == (
        b'{"_meta":null,"toolCallId":"c"}'
    )


def test_a_state_has_two_tags_and_both_are_read() -> None:
    update = b'{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"error"}}'
    read = codec.decode(update, v2.UpdateSessionNotification).update
    assert (read.state, read.stop_reason) == ("idle", "error")
    with pytest.raises(codec.Invalid):
        codec.decode(b'{"sessionId":"s","update":{"sessionUpdate":"state_update"}}', v2.UpdateSessionNotification)
