"""Messages of each dialect, one of every shape it has: `(where it belongs, what is said)`.

Where it belongs: a method's name is its params, `= method` its result, `error` an error; `update`, `block`,
`tool content`, `server` and the two kinds of capabilities are parts of messages, and are sent in one.
"""

PHARO = [
    (
        "initialize",
        {
            "protocolVersion": 1,
            "clientInfo": {"name": "Workbench", "version": "3.1"},
            "clientCapabilities": {
                "fs": {"readTextFile": True, "writeTextFile": False},
                "terminal": {"create": True, "output": True, "waitForExit": True, "kill": True, "release": True},
            },
        },
    ),
    (
        "= initialize",
        {
            "protocolVersion": 1,
            "agentInfo": {"name": "Scribe", "version": "2.0"},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"supportedTransports": ["stdio", "sse"]},
                "sessionModes": [{"modeId": "write", "title": "Write", "description": "Changes files"}],
            },
            "authenticationMethods": [{"methodId": "key", "title": "Key", "description": "A key"}],
        },
    ),
    ("client capabilities", {"fs": {"readTextFile": True, "writeTextFile": True}}),
    ("client capabilities", {"terminal": {"create": True, "output": False}, "fs": {"readTextFile": False}}),
    (
        "agent capabilities",
        {
            "loadSession": False,
            "promptCapabilities": {"image": False},
            "mcpCapabilities": {"supportedTransports": ["http"]},
            "sessionModes": [],
        },
    ),
    ("= initialize", {"authenticationMethods": [{"methodId": "m", "title": "M", "description": "?"}]}),
    ("authenticate", {"methodId": "key", "credentials": {"apiKey": "not a real one"}}),
    ("= authenticate", None),
    ("session/new", {"cwd": "/home/ann/app", "mcpServers": []}),
    (
        "server",
        {"transport": "stdio", "command": "/opt/tools/serve", "args": ["-q"], "env": {"LEVEL": "debug"}},
    ),
    ("server", {"transport": "http", "url": "https://mcp.example/api", "headers": {"Accept": "text/plain"}}),
    ("server", {"transport": "websocket", "url": "wss://mcp.example/ws", "headers": {"Accept": "text/plain"}}),
    ("= session/new", {"sessionId": "sess_1"}),
    ("session/load", {"sessionId": "sess_1", "mcpServers": []}),
    ("= session/load", None),
    ("session/set_mode", {"sessionId": "sess_1", "modeId": "write"}),
    ("= session/set_mode", None),
    ("session/set_config_option", {"sessionId": "sess_1", "option": "autoApproveTools", "value": True}),
    ("session/set_config_option", {"sessionId": "sess_1", "option": "model", "value": "small"}),
    ("= session/set_config_option", None),
    ("session/cancel", {"sessionId": "sess_1"}),
    ("session/prompt", {"sessionId": "sess_1", "prompt": [{"type": "text", "text": "Sort the imports"}]}),
    ("= session/prompt", {"stopReason": "max_tokens"}),
    ("block", {"type": "text", "text": "a word"}),
    (
        "block",
        {
            "type": "image",
            "mimeType": "image/png",
            "data": "iVBORw==",
            "uri": "file:///a/shot.png",
            "annotations": {"title": "A shot"},
        },
    ),
    ("block", {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="}),
    (
        "block",
        {"type": "resource", "resource": {"uri": "file:///a.js", "mimeType": "text/javascript", "text": "1"}},
    ),
    (
        "block",
        {"type": "resource", "resource": {"uri": "file:///a.png", "mimeType": "image/png", "blob": "iVBORw=="}},
    ),
    (
        "block",
        {
            "type": "resource_link",
            "uri": "file:///a.pdf",
            "name": "Manual",
            "mimeType": "application/pdf",
            "size": 12,
            "description": "How to",
        },
    ),
    (
        "block",
        {"type": "text", "text": "mind", "annotations": {"title": "Note", "priority": "high", "_custom": "mine"}},
    ),
    ("update", {"type": "message", "role": "agent", "content": [{"type": "text", "text": "Working on it."}]}),
    (
        "update",
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
    ),
    (
        "update",
        {
            "type": "tool_call",
            "toolCallId": "t1",
            "title": "Read a.json",
            "kind": "read",
            "status": "pending",
            "location": {"path": "/a.json", "line": 3},
            "content": [],
        },
    ),
    (
        "update",
        {
            "type": "tool_call_update",
            "toolCallId": "t1",
            "status": "completed",
            "content": [{"type": "text", "text": "read it"}],
        },
    ),
    (
        "update",
        {"type": "plan", "entries": [{"content": "look", "priority": "high", "status": "in_progress"}]},
    ),
    ("update", {"type": "current_mode_update", "modeId": "write"}),
    (
        "update",
        {"type": "available_commands_update", "availableCommands": [{"name": "go", "description": "Goes"}]},
    ),
    (
        "tool content",
        {"type": "diff", "path": "/a.js", "oldText": "1", "newText": "2", "mimeType": "text/javascript"},
    ),
    ("tool content", {"type": "diff", "path": "/new.st", "oldText": "", "newText": "Object subclass: #New"}),
    ("tool content", {"type": "terminal", "terminalId": "term_1", "command": "make test", "exitCode": 2}),
    (
        "session/request_permission",
        {
            "sessionId": "sess_1",
            "title": "Remove the cache?",
            "description": "All of it",
            "options": [
                {"optionId": "y", "kind": "allow_once", "label": "Yes"},
                {"optionId": "n", "kind": "reject_once", "label": "No"},
            ],
        },
    ),
    ("= session/request_permission", {"selectedOptionId": "y"}),
    ("= session/request_permission", {"selectedOptionId": None}),
    ("fs/read_text_file", {"sessionId": "sess_1", "path": "/a.txt", "startLine": 2, "lineLimit": 9}),
    ("fs/read_text_file", {"sessionId": "sess_1", "path": "/a.txt"}),
    ("= fs/read_text_file", {"content": "text"}),
    ("fs/write_text_file", {"sessionId": "sess_1", "path": "/a.txt", "content": "new"}),
    ("= fs/write_text_file", None),
    (
        "terminal/create",
        {"sessionId": "sess_1", "command": "make", "args": ["test"], "cwd": "/a", "env": {"CI": "1"}},
    ),
    ("= terminal/create", {"terminalId": "term_1"}),
    ("terminal/output", {"sessionId": "sess_1", "terminalId": "term_1"}),
    ("= terminal/output", {"output": "so far", "exitCode": None}),
    ("= terminal/output", {"output": "done", "exitCode": 0}),
    ("terminal/wait_for_exit", {"sessionId": "sess_1", "terminalId": "term_1", "timeout": 500}),
    ("terminal/kill", {"sessionId": "sess_1", "terminalId": "term_1"}),
    ("= terminal/kill", None),
    ("terminal/release", {"sessionId": "sess_1", "terminalId": "term_1"}),
    ("= terminal/release", None),
    *(
        ("error", {"code": code, "message": "No", "data": {"reason": "because"}})
        for code in (-32001, -32002, -32003, -32004, -32005, -32006, -32007, -32601, -32603)
    ),
]

BEAMCODE = [
    ("session/set_model", {"sessionId": "sess_1", "modelId": "large"}),
    (
        "update",
        {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [{"name": "w", "description": "W", "input": {"hint": "q"}}],
        },
    ),
    ("update", {"sessionUpdate": "current_mode_update", "modeId": "ask"}),
    ("update", {"sessionUpdate": "tool_result", "toolCallId": "t1", "status": "completed"}),
    ("block", {"type": "text", "text": "a word"}),
    ("block", {"type": "image", "mimeType": "image/png", "data": "iVBORw=="}),
    ("block", {"type": "resource", "resource": {"uri": "file:///a.py", "mimeType": "text/x-python", "text": "1"}}),
    ("block", {"type": "resource_link", "uri": "file:///a.pdf", "name": "a.pdf"}),
    ("tool content", {"type": "content", "content": {"type": "text", "text": "out"}}),
    ("tool content", {"type": "diff", "path": "/a", "oldText": "1", "newText": "2"}),
    ("tool content", {"type": "terminal", "terminalId": "term_1"}),
    (
        "session/request_permission",
        {
            "sessionId": "sess_1",
            "toolCall": {"toolCallId": "t1"},
            "options": [{"optionId": "a", "name": "Yes", "kind": "allow_once"}],
        },
    ),
    ("= session/request_permission", {"outcome": {"outcome": "selected", "optionId": "a"}}),
    ("session/prompt", {"prompt": [{"type": "text", "text": "/web acp"}]}),
]

CURSOR = [
    (
        "= initialize",
        {
            "protocolVersion": 1,
            "agentCapabilities": {
                "promptCapabilities": {"image": True},
                "sessionCapabilities": {"fork": {}, "resume": {}},
            },
            "agentInfo": {"name": "cc", "title": "CC", "version": "1"},
        },
    ),
    ("session/new", {"cwd": "/a"}),
    (
        "session/new",
        {"cwd": "/a", "mcpServers": [], "_meta": {"systemPrompt": "Be brief", "disableBuiltInTools": True}},
    ),
    ("session/new", {"cwd": "/a", "_meta": {"systemPrompt": {"append": "Be brief"}}}),
    (
        "= session/new",
        {
            "sessionId": "sess_1",
            "models": {"availableModels": [{"modelId": "s", "name": "Small"}], "currentModelId": "s"},
            "modes": {
                "availableModes": [{"id": "plan", "name": "Plan", "description": "Plans"}],
                "currentModeId": "plan",
            },
        },
    ),
    (
        "session/request_permission",
        {
            "sessionId": "sess_1",
            "toolCall": {"toolCallId": "t1", "title": "Edit", "rawInput": {"file_path": "/a"}},
            "options": [
                {"kind": "allow_always", "name": "Always"},
                {"kind": "allow_once", "name": "Yes"},
                {"kind": "reject_once", "name": "No"},
            ],
        },
    ),
    ("= session/request_permission", {"outcome": {"outcome": "selected", "optionId": "allow_once"}}),
    ("block", {"type": "resource", "resource": {"uri": "file:///auth.ts"}}),
    ("block", {"type": "resource", "resource": {"uri": "file:///auth.ts", "text": "x"}}),
    ("block", {"type": "resource_link", "uri": "file:///a/b.c"}),
    ("block", {"type": "image", "uri": "https://example.com/a.png"}),
    ("block", {"type": "image", "data": "/9j/4AAQ"}),
    ("tool content", {"type": "content", "content": {"text": "done"}}),
    (
        "update",
        {
            "sessionUpdate": "tool_call",
            "toolCallId": "t1",
            "title": "Edit `a`",
            "kind": "edit",
            "status": "pending",
            "rawInput": {"file_path": "/a", "old_string": "1", "new_string": "2"},
            "content": [{"type": "diff", "path": "/a", "oldText": "1", "newText": "2"}],
            "locations": [{"path": "/a", "line": 42}],
        },
    ),
    ("update", {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}),
    ("update", {"sessionUpdate": "current_mode_update", "currentModeId": "plan"}),
    ("= session/prompt", {"stopReason": "max_turn_requests"}),
]

DRAFT = [
    (
        "initialize",
        {
            "protocolVersion": 1,
            "clientInfo": {"name": "Ed", "version": "1.2"},
            "capabilities": {
                "fs": {"read": True, "write": False, "watch": True},
                "terminal": {"create": True, "interactive": False, "maxConcurrent": 3},
                "ui": {"permissionDialogs": True, "diffViewer": False, "codeNavigation": True},
                "_custom": {"analysis": {"enabled": True}},
            },
        },
    ),
    (
        "= initialize",
        {
            "protocolVersion": 1,
            "agentInfo": {"name": "Ag", "version": "0.1"},
            "capabilities": {
                "loadSession": True,
                "mcpCapabilities": {"servers": True, "transport": ["stdio", "http", "sse"]},
                "promptCapabilities": {"streaming": True, "cancellation": True, "attachments": True},
                "sessionCapabilities": {
                    "modes": ["default", "plan"],
                    "configOptions": ["autoApprove"],
                    "persistence": True,
                },
            },
            "requiredClientCapabilities": {},
        },
    ),
    ("client capabilities", {"fs": {"read": True}, "terminal": {"create": False}, "ui": {"diffViewer": True}}),
    (
        "agent capabilities",
        {
            "loadSession": True,
            "mcpCapabilities": {"servers": False, "transport": []},
            "promptCapabilities": {"streaming": False},
            "sessionCapabilities": {"modes": ["ask"]},
            "_custom": {"x": 1},
        },
    ),
    ("authenticate", {"method": "api_key", "credentials": {"apiKey": "not a real one"}}),
    ("= authenticate", {"success": True, "expiresAt": "2026-03-01T00:00:00Z"}),
    (
        "session/new",
        {
            "workingDirectory": "/home/ann/app",
            "mcpServers": [],
            "systemPrompt": "Be kind.",
            "initialMode": "plan",
            "configOptions": {"autoApprove": True},
        },
    ),
    ("session/new", {"workingDirectory": "/home/ann/app"}),
    (
        "server",
        {
            "name": "files",
            "transport": {"type": "stdio", "command": "serve", "args": ["/a"], "env": {"D": "1"}, "cwd": "/a"},
        },
    ),
    ("server", {"name": "bare", "transport": {"type": "stdio", "command": "serve"}}),
    (
        "server",
        {
            "name": "hub",
            "transport": {"type": "http", "url": "https://h.example", "headers": {"A": "b"}, "timeout": 30000},
        },
    ),
    ("server", {"name": "ev", "transport": {"type": "sse", "url": "https://h.example/e", "headers": {"A": "b"}}}),
    ("server", {"name": "far", "transport": {"type": "acp", "agentUrl": "acp://far", "mcpServerName": "inner"}}),
    ("= session/new", {"sessionId": "sess_1", "createdAt": "2026-02-04T10:30:00Z"}),
    ("session/load", {"sessionId": "sess_1"}),
    (
        "= session/load",
        {
            "sessionId": "sess_1",
            "workingDirectory": "/a",
            "mode": "plan",
            "configOptions": {"autoApprove": False},
            "messageCount": 7,
        },
    ),
    (
        "session/prompt",
        {"sessionId": "sess_1", "content": [{"type": "text", "text": "Tidy up"}], "_meta": {"x": 1}},
    ),
    (
        "session/prompt",
        {
            "sessionId": "sess_1",
            "content": [{"type": "text", "text": "Look"}],
            "attachments": [{"path": "/a/b.txt", "name": "b.txt"}],
        },
    ),
    ("= session/prompt", {"stopReason": "end_turn", "usage": {"inputTokens": 15, "outputTokens": 23}}),
    ("= session/prompt", {"stopReason": "max_tokens"}),
    ("session/set_mode", {"sessionId": "sess_1", "mode": "plan"}),
    ("= session/set_mode", {"previousMode": "default", "currentMode": "plan"}),
    ("session/set_config_option", {"sessionId": "sess_1", "key": "maxTokens", "value": 4096}),
    ("session/cancel", {"sessionId": "sess_1", "reason": "user_requested"}),
    ("session/cancel", {"sessionId": "sess_1"}),
    ("block", {"type": "text", "text": "a word"}),
    ("block", {"type": "image", "source": {"type": "base64", "mediaType": "image/png", "data": "iVBORw=="}}),
    (
        "block",
        {"type": "image", "source": {"type": "url", "mediaType": "image/png", "url": "https://x.example/a.png"}},
    ),
    ("block", {"type": "audio", "source": {"type": "base64", "mediaType": "audio/wav", "data": "UklGRg=="}}),
    ("block", {"type": "resource_link", "uri": "file:///a.ts", "mimeType": "text/typescript", "title": "a.ts"}),
    ("block", {"type": "resource_link", "uri": "file:///a.ts"}),
    (
        "block",
        {"type": "resource", "uri": "file:///a.ts", "mimeType": "text/typescript", "title": "a.ts", "content": "1"},
    ),
    (
        "update",
        {
            "type": "plan",
            "data": {"planId": "p", "steps": [{"id": "s1", "description": "read", "status": "completed"}]},
        },
    ),
    ("update", {"type": "agent_message_chunk", "data": {"content": "I see", "index": 0, "final": False}}),
    ("update", {"type": "agent_message_chunk", "data": {"content": "I see"}}),
    ("update", {"type": "user_message_chunk", "data": {"content": "Please", "index": 0, "final": True}}),
    ("update", {"type": "thought_message_chunk", "data": {"content": "Hm", "index": 0, "visible": True}}),
    (
        "update",
        {
            "type": "tool_call",
            "data": {
                "id": "tc_1",
                "tool": "fs/write_text_file",
                "input": {"path": "/a.ts", "content": "1"},
                "status": "pending",
                "requiresPermission": True,
            },
        },
    ),
    (
        "update",
        {
            "type": "tool_call",
            "data": {
                "id": "tc_1",
                "tool": "fs/write_text_file",
                "input": {"path": "/a.ts"},
                "location": {"path": "/a.ts", "line": 4, "column": 5, "endLine": 5, "endColumn": 2},
            },
        },
    ),
    (
        "update",
        {
            "type": "tool_call_update",
            "data": {"id": "tc_1", "status": "completed", "output": {"type": "text", "text": "ok"}, "duration": 45},
        },
    ),
    (
        "update",
        {
            "type": "tool_call_update",
            "data": {
                "id": "tc_1",
                "status": "completed",
                "output": {
                    "type": "diff",
                    "path": "/a.ts",
                    "hunks": [
                        {
                            "oldStart": 1,
                            "oldLines": 2,
                            "newStart": 1,
                            "newLines": 3,
                            "content": "@@ -1,2 +1,3 @@\n one\n-two\n+2\n+3",
                        }
                    ],
                },
            },
        },
    ),
    (
        "update",
        {
            "type": "tool_call_update",
            "data": {
                "id": "tc_1",
                "status": "completed",
                "output": {
                    "type": "terminal",
                    "terminalId": "term_1",
                    "command": "make",
                    "exitCode": 0,
                    "stdout": "fine",
                    "stderr": "",
                },
            },
        },
    ),
    ("update", {"type": "tool_call_update", "data": {"id": "tc_1", "status": "denied"}}),
    ("update", {"type": "tool_call_update", "data": {"id": "tc_1", "status": "awaiting_permission"}}),
    ("update", {"type": "tool_call_update", "data": {"id": "tc_1", "status": "failed", "error": "no such file"}}),
    ("update", {"type": "available_commands", "data": {"commands": [{"name": "help", "description": "Helps"}]}}),
    (
        "update",
        {
            "type": "current_mode_update",
            "data": {"previousMode": "default", "currentMode": "plan", "reason": "asked"},
        },
    ),
    (
        "update",
        {
            "type": "config_option_update",
            "data": {"key": "autoApprove", "previousValue": False, "currentValue": True, "source": "user"},
        },
    ),
    (
        "session/update",
        {
            "sessionId": "sess_1",
            "type": "agent_message_chunk",
            "data": {"content": "x", "index": 3},
            "timestamp": "2026-02-04T10:30:00Z",
        },
    ),
    (
        "session/request_permission",
        {
            "sessionId": "sess_1",
            "operation": "file_write",
            "resource": "/a.ts",
            "reason": "to fix it",
            "toolCallId": "tc_1",
        },
    ),
    ("= session/request_permission", {"granted": True, "remember": True, "scope": "session"}),
    ("= session/request_permission", {"granted": True, "scope": "once"}),
    ("= session/request_permission", {"granted": False}),
    ("fs/read_text_file", {"path": "/a.ts"}),
    ("fs/read_text_file", {"path": "/a.ts", "startLine": 3, "endLine": 8}),
    ("= fs/read_text_file", {"content": "text", "encoding": "utf-8", "totalLines": 1, "truncated": False}),
    ("fs/write_text_file", {"path": "/a.ts", "content": "1", "createDirectories": False, "overwrite": True}),
    ("= fs/write_text_file", {"bytesWritten": 1, "created": False}),
    ("terminal/create", {"command": "make", "args": ["x"], "cwd": "/a", "env": {"CI": "1"}}),
    ("terminal/wait_for_exit", {"terminalId": "term_1"}),
    ("terminal/kill", {"terminalId": "term_1", "signal": "SIGINT", "force": False}),
    ("= terminal/kill", {"killed": True}),
    ("terminal/release", {"terminalId": "term_1"}),
    ("= terminal/release", {"released": True}),
    (
        "_mcp/request",
        {"serverName": "hub", "mcpMethod": "tools/call", "mcpParams": {"name": "search", "arguments": {"q": "?"}}},
    ),
    ("_custom/analyse", {"path": "/a.ts", "analysisType": "security"}),
    *(
        ("error", {"code": code, "message": "No", "data": {"sessionId": "sess_9", "suggestion": "another"}})
        for code in (*range(-32009, -31999), -32601, -32603)
    ),
]

JETBRAINS = [
    (
        "initialize",
        {
            "protocolVersion": 1,
            "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": False},
        },
    ),
    (
        "= initialize",
        {
            "protocolVersion": 1,
            "capabilities": {"tools": [{"name": "t", "description": "T", "inputSchema": {"type": "object"}}]},
            "serverInfo": {"name": "agent", "version": "1"},
        },
    ),
    ("session/new", {"cwd": "/a", "mcpServers": []}),
    ("= session/new", {"sessionId": "sess_1"}),
    ("session/prompt", {"sessionId": "sess_1", "prompt": [{"type": "text", "text": "Review"}]}),
    ("= session/prompt", {"stopReason": "end_turn"}),
    ("= session/prompt", {"stopReason": "end_turn", "content": [{"type": "text", "text": "Done."}]}),
    (
        "update",
        {"sessionUpdate": "message", "role": "assistant", "content": [{"type": "text", "text": "Let me see."}]},
    ),
    ("update", {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Let me"}}),
    (
        "update",
        {"sessionUpdate": "plan", "entries": [{"content": "read", "priority": "high", "status": "pending"}]},
    ),
    (
        "update",
        {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Read", "kind": "read", "status": "pending"},
    ),
    ("update", {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress"}),
    (
        "update",
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "c1",
            "status": "completed",
            "content": [{"type": "content", "content": {"type": "text", "text": "3 issues"}}],
        },
    ),
    ("session/cancel", {"sessionId": "sess_1"}),
]

EXAMPLES = {"pharo": PHARO, "beamcode": BEAMCODE, "cursor": CURSOR, "draft": DRAFT, "jetbrains": JETBRAINS}
