"""How real types are read when a peer gets something wrong: what is refused, let pass, kept."""

from typing import Any

import pytest
from msgspec import UNSET, Raw

from dragoman import codec, schema

STDIO = b'{"name":"files","command":"/bin/mcp","args":[],"env":[]}'
TERMINAL = b'{"sessionId":"s","command":"make",'
READ = b'{"sessionId":"s","path":"/a",'
FORM = b'{"mode":"form","message":"?","sessionId":"s","requestedSchema":'
CALL = b'{"sessionUpdate":"tool_call","toolCallId":"c","title":"t",'

# ── refused ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("tp", "message", "place"),
    [
        (schema.NewSessionRequest, b'{"cwd":"/","mcpServers":"files"}', "$.mcpServers"),
        (schema.NewSessionRequest, b'{"cwd":"/","mcpServers":[' + STDIO + b',"x"]}', "$.mcpServers[1]"),
        (schema.NewSessionRequest, b'{"cwd":"/","mcpServers":[{"name":"files"}]}', "$.mcpServers[0]"),
        (schema.NewSessionRequest, b'{"cwd":7,"mcpServers":[]}', "$.cwd"),
        (schema.NewSessionRequest, b'{"cwd":"/"}', "`mcpServers`"),
        (
            schema.NewSessionRequest,
            b'{"cwd":"/","mcpServers":[],"additionalDirectories":["/a",7]}',
            "$.additionalDirectories[1]",
        ),
        (
            schema.NewSessionRequest,
            b'{"cwd":"/","mcpServers":[],"systemPrompt":{"mode":"append"}}',
            "$.systemPrompt",
        ),
        (
            schema.LoadSessionRequest,
            b'{"sessionId":"s","cwd":"/","mcpServers":[{"type":"http","name":"n","url":"u","headers":[7]}]}',
            "$.mcpServers[0].headers[0]",
        ),
        (schema.ResumeSessionRequest, b'{"sessionId":"s","cwd":"/","mcpServers":{}}', "$.mcpServers"),
        (schema.ListSessionsRequest, b'{"cursor":7}', "$.cursor"),
        (schema.CreateTerminalRequest, TERMINAL + b'"args":["all",7]}', "$.args[1]"),
        (schema.CreateTerminalRequest, TERMINAL + b'"env":[{"name":"CI"}]}', "$.env[0]"),
        (schema.CreateTerminalRequest, TERMINAL + b'"env":{"CI":"1"}}', "$.env"),
        (schema.CreateTerminalRequest, TERMINAL + b'"cwd":7}', "$.cwd"),
        (schema.CreateTerminalRequest, TERMINAL + b'"outputByteLimit":-1}', "$.outputByteLimit"),
        (schema.ReadTextFileRequest, READ + b'"line":"7"}', "$.line"),
        (schema.ReadTextFileRequest, READ + b'"line":4294967296}', "$.line"),
        (schema.ReadTextFileRequest, READ + b'"limit":-1}', "$.limit"),
        (schema.PromptRequest, b'{"sessionId":"s","prompt":"hello"}', "$.prompt"),
        (schema.PromptRequest, b'{"sessionId":"s","prompt":["hello"]}', "$.prompt[0]"),
        (schema.PromptRequest, b'{"sessionId":"s","prompt":[{"type":"text"}]}', "$.prompt[0]"),
        (
            schema.RequestPermissionRequest,
            b'{"sessionId":"s","toolCall":{"toolCallId":"c"},'
            b'"options":[{"optionId":"y","name":"Yes","kind":"maybe"}]}',
            "$.options[0].kind",
        ),
        (schema.RequestPermissionResponse, b'{"outcome":{"outcome":"allowed"}}', "$.outcome"),
        (schema.RequestPermissionResponse, b'{"outcome":{"outcome":"selected"}}', "$.outcome"),
        (schema.AuthMethodTerminal, b'{"id":"i","name":"n","env":{"A":1}}', "$.env"),
        (
            schema.SetProviderRequest,
            b'{"providerId":"p","apiType":"openai","baseUrl":"u","headers":{"A":1}}',
            "$.headers",
        ),
        (schema.FormElicitation, FORM + b'{"required":[7]}}', "$.requestedSchema.required"),
    ],
)
def test_a_value_that_matters_is_refused_by_name(tp: Any, message: bytes, place: str) -> None:
    with pytest.raises(codec.Invalid) as refused:
        codec.decode(message, tp)
    assert place in str(refused.value)


def test_a_known_update_with_a_bad_payload_does_not_pass_for_an_unknown_one() -> None:
    with pytest.raises(codec.Invalid):
        codec.decode(
            b'{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk"}}', schema.SessionNotification
        )


def test_a_block_without_a_type_does_not_pass_for_an_unknown_one() -> None:
    with pytest.raises(codec.Invalid):
        codec.decode(b'{"sessionId":"s","prompt":[{"text":"hello"}]}', schema.PromptRequest)


@pytest.mark.parametrize(
    ("tp", "message"),
    [
        (schema.InitializeRequest, b'{"protocolVersion":65536}'),
        (schema.UsageUpdate, b'{"used":-1,"size":5}'),
        (schema.Notice, b'{"severity":"info","title":""}'),
    ],
)
def test_a_required_value_beyond_its_limits_is_refused(tp: Any, message: bytes) -> None:
    with pytest.raises(codec.Invalid):
        codec.decode(message, tp)


def test_a_question_belongs_to_a_session_or_to_a_request() -> None:
    url = b'{"mode":"url","message":"?","elicitationId":"e","url":"u"%s}'
    with pytest.raises(codec.Invalid, match="sessionId"):
        codec.decode(url % b"", schema.CreateElicitationRequest)
    of_session = codec.decode(url % b',"sessionId":"s"', schema.CreateElicitationRequest)
    assert (of_session.session_id, of_session.request_id) == ("s", UNSET)
    of_request = codec.decode(url % b',"requestId":null', schema.CreateElicitationRequest)
    assert (of_request.session_id, of_request.request_id) == (None, None)
    misnamed = codec.decode(url % b',"sessionId":7,"requestId":1', schema.CreateElicitationRequest)
    assert (misnamed.session_id, misnamed.request_id) == (None, 1)


def test_an_mcp_answer_is_a_result_or_an_error() -> None:
    assert codec.decode(b'{"result":null}', schema.MessageMcpResponse).result is None
    assert codec.decode(b'{"result":1,"error":7}', schema.MessageMcpResponse).error is UNSET
    for neither in (b"{}", b'{"error":7}', b'{"error":null}'):
        with pytest.raises(codec.Invalid, match="result"):
            codec.decode(neither, schema.MessageMcpResponse)


def test_a_truth_value_for_an_option_needs_its_type() -> None:
    option = b'{"sessionId":"s","configId":"c",%s}'
    with pytest.raises(codec.Invalid, match="boolean"):
        codec.decode(option % b'"value":true', schema.SetSessionConfigOptionRequest)
    flipped = codec.decode(option % b'"type":"boolean","value":true', schema.SetSessionConfigOptionRequest)
    assert flipped.value is True


# ── let pass ──────────────────────────────────────────────────────────────────────────────────────


def test_null_means_empty_where_the_schema_says_so() -> None:
    new = codec.decode(b'{"cwd":"/","mcpServers":null,"additionalDirectories":null}', schema.NewSessionRequest)
    assert (new.mcp_servers, new.additional_directories) == ([], [])
    terminal = codec.decode(TERMINAL + b'"args":null,"env":null}', schema.CreateTerminalRequest)
    assert (terminal.args, terminal.env) == ([], [])
    login = codec.decode(b'{"id":"i","name":"n","args":null,"env":null}', schema.AuthMethodTerminal)
    assert (login.args, login.env) == ([], {})


def test_an_unknown_tool_kind_reads_as_other() -> None:
    call = codec.decode(CALL + b'"kind":"levitate","status":7}', schema.ToolCall)
    assert (call.kind, call.status) == ("other", "pending")


def test_an_unknown_tool_kind_in_an_update_leaves_the_kind_as_it_was() -> None:
    update = codec.decode(b'{"toolCallId":"c","kind":"levitate","title":"t"}', schema.ToolCallUpdate)
    assert (update.kind, update.title) == (None, "t")


def test_list_items_that_do_not_fit_are_left_out() -> None:
    call = codec.decode(CALL + b'"locations":[7,{"path":"/a","line":-1},{"line":1}]}', schema.ToolCall)
    assert call.locations == [schema.ToolCallLocation(path="/a")]
    plan = codec.decode(
        b'{"entries":[{"content":"a"},{"content":"b","priority":"low","status":"pending"}]}', schema.Plan
    )
    assert [entry.content for entry in plan.entries] == ["b"]


def test_a_required_list_that_is_none_reads_as_empty_yet_must_be_there() -> None:
    assert codec.decode(b'{"sessions":7}', schema.ListSessionsResponse).sessions == []
    with pytest.raises(codec.Invalid, match="sessions"):
        codec.decode(b"{}", schema.ListSessionsResponse)


def test_a_malformed_meta_is_dropped() -> None:
    block = codec.decode(b'{"type":"text","text":"hi","_meta":7}', schema.ContentBlock)
    assert block == schema.TextContent(text="hi")


def test_a_malformed_capability_is_off_and_the_others_stay() -> None:
    request = codec.decode(
        b'{"protocolVersion":1,"clientCapabilities":{"fs":7,"terminal":true,"auth":{"terminal":"yes"}}}',
        schema.InitializeRequest,
    )
    assert request.client_capabilities == schema.ClientCapabilities(terminal=True)


def test_an_auth_method_that_could_run_something_wrong_is_left_out() -> None:
    response = codec.decode(
        b'{"protocolVersion":1,"authMethods":[{"type":"terminal","id":"t","name":"n","args":[7]},'
        b'{"id":"a","name":"A"}]}',
        schema.InitializeResponse,
    )
    assert response.auth_methods == [schema.AuthMethodAgent(id="a", name="A")]


def test_a_new_stop_reason_does_not_cost_the_turn() -> None:
    assert codec.decode(b'{"stopReason":"paused"}', schema.PromptResponse).stop_reason == "paused"


def test_a_choice_with_a_malformed_description_stays_a_choice() -> None:
    prop = codec.decode(
        b'{"type":"string","oneOf":[{"const":"a","title":"A","description":7}]}', schema.StringPropertySchema
    )
    assert prop.one_of == [schema.EnumOption(const="a", title="A")]


# ── kept ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_unknown_content_block_is_kept_byte_for_byte() -> None:
    request = b'{"sessionId":"s","prompt":[{"type":"hologram","depth":1e2 , "z":[ ]}]}'
    read = codec.decode(request, schema.PromptRequest)
    assert isinstance(read.prompt[0], Raw)
    assert codec.encode(read) == request


def test_an_unknown_session_update_is_kept_byte_for_byte() -> None:
    note = b'{"sessionId":"s","update":{"sessionUpdate":"mood","value": "calm"}}'
    read = codec.decode(note, schema.SessionNotification)
    assert isinstance(read.update, Raw)
    assert codec.encode(read) == note


def test_an_unknown_elicitation_is_kept_byte_for_byte() -> None:
    request = b'{"mode":"voice","message":"?","sessionId":"s"}'
    assert bytes(codec.decode(request, schema.CreateElicitationRequest)) == request


def test_an_unknown_field_of_a_form_is_kept_byte_for_byte() -> None:
    form = codec.decode(FORM + b'{"properties":{"a":{"type":"colour"}}}}', schema.FormElicitation)
    assert bytes(form.requested_schema.properties["a"]) == b'{"type":"colour"}'


def test_items_of_an_unknown_type_are_kept() -> None:
    prop = codec.decode(
        b'{"type":"array","items":{"type":"colour","space":"sRGB"}}', schema.MultiSelectPropertySchema
    )
    assert prop.items == {"type": "colour", "space": "sRGB"}


# ── told apart ────────────────────────────────────────────────────────────────────────────────────


def test_a_server_without_a_type_and_one_that_says_stdio_are_the_same() -> None:
    new = b'{"cwd":"/","mcpServers":[%s,%s]}' % (STDIO, b'{"type":"stdio",' + STDIO[1:])
    servers = codec.decode(new, schema.NewSessionRequest).mcp_servers
    assert servers[0] == servers[1] == schema.McpServerStdio(name="files", command="/bin/mcp", args=[], env=[])


def test_a_stdio_server_is_written_without_a_type() -> None:
    server = schema.McpServerStdio(name="files", command="/bin/mcp", args=[], env=[])
    assert codec.encode(server) == STDIO


def test_an_auth_method_of_an_unknown_type_is_the_agents_own() -> None:
    method = codec.decode(b'{"type":"env_var","id":"i","name":"n","vars":[]}', schema.AuthMethod)
    assert method == schema.AuthMethodAgent(id="i", name="n")


def test_a_resource_is_text_or_bytes_by_its_key() -> None:
    read = codec.decode(b'{"type":"resource","resource":{"uri":"u","blob":"NDI="}}', schema.ContentBlock)
    assert read.resource == schema.BlobResourceContents(uri="u", blob="NDI=")
    read = codec.decode(b'{"type":"resource","resource":{"uri":"u","text":"42"}}', schema.ContentBlock)
    assert read.resource == schema.TextResourceContents(uri="u", text="42")


def test_options_and_groups_of_options_are_told_by_their_key() -> None:
    select = b'{"type":"select","id":"i","name":"n","currentValue":"v","options":[%s]}'
    read = codec.decode(select % b'{"value":"v","name":"V"}', schema.SessionConfigOption)
    assert read.options == [schema.SessionConfigSelectOption(value="v", name="V")]
    read = codec.decode(select % b'{"group":"g","name":"G","options":[7]}', schema.SessionConfigOption)
    assert read.options == [schema.SessionConfigSelectGroup(group="g", name="G", options=[])]


def test_left_out_and_null_are_told_apart_where_null_clears() -> None:
    update = codec.decode(b'{"title":null}', schema.SessionInfoUpdate)
    assert (update.title, update.updated_at) == (None, UNSET)
    assert codec.encode(update) == b'{"sessionUpdate":"session_info_update","title":null}'


def test_null_is_a_tool_input_like_any_other() -> None:
    assert codec.decode(CALL + b'"rawInput":null}', schema.ToolCall).raw_input is None
    assert codec.encode(schema.ToolCallUpdate(tool_call_id="c")) == b'{"toolCallId":"c"}'


def test_a_form_always_says_that_it_is_one() -> None:
    assert codec.encode(schema.ElicitationSchema()) == b'{"type":"object","properties":{}}'
    assert codec.decode(b"{}", schema.ElicitationSchema) == schema.ElicitationSchema()
    assert codec.decode(b'{"type":"array"}', schema.ElicitationSchema) == schema.ElicitationSchema()
