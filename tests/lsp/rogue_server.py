"""A language server that misbehaves as its first argument says; its second is a file that it appends its pid to."""

import json
import os
import sys
import time

manner, log = sys.argv[1], sys.argv[2]
with open(log, "a") as file:
    file.write(f"{os.getpid()}\n")


def send(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    sys.stdout.buffer.flush()


def read():
    length = 0
    while (line := sys.stdin.buffer.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return json.loads(sys.stdin.buffer.read(length)) if length else None


def publish(uri, diagnostics):
    send({"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": diagnostics}})


MISTAKE = {
    "range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}},
    "severity": 1,
    "message": "wrong " * 1000,
}
CAPABILITIES = {"textDocumentSync": 1} | {
    f"{name}Provider": True
    for name in (
        "hover",
        "rename",
        "definition",
        "references",
        "documentSymbol",
        "documentFormatting",
        "codeAction",
    )
}
SHAPES = {  # none of which is as LSP says
    "textDocument/hover": {"contents": [5, None, {"value": 7}]},
    "textDocument/definition": [{"uri": "file:///a", "range": {"start": {"line": "x"}}}],
    "textDocument/references": [{"uri": "http://[", "range": {"start": {"line": 1e999}}}],
    "textDocument/documentSymbol": [{"name": None, "kind": "x", "location": 5, "children": 7}],
    "textDocument/rename": {"changes": {"file:///a": 5}},
    "textDocument/formatting": {"edits": 5},
    "textDocument/codeAction": [{"title": "Do it", "edit": {"documentChanges": [{"kind": None}]}}],
}
NOWHERE = [{"message": "no range"}, {"range": 5}, {"range": {"start": {"line": -1, "character": "x"}}}]
while (message := read()) is not None:
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        if manner == "dies at once":
            sys.exit("I will not start")
        send({"id": id, "result": {"capabilities": CAPABILITIES}})
    elif method == "textDocument/didOpen":
        uri = message["params"]["textDocument"]["uri"]
        if manner == "everywhere":
            for number in range(3000):
                publish(f"file:///elsewhere/{number}.odd", [MISTAKE])
        publish(uri, NOWHERE + [MISTAKE] * (5000 if manner == "floods" else 1))
    elif manner == "shapeless" and method in SHAPES:
        send({"id": id, "result": SHAPES[method]})
    elif method == "textDocument/hover":
        if manner == "hangs":
            while True:
                time.sleep(60)
        elif manner == "dies":
            os.kill(os.getpid(), 9)
        elif manner == "lies":
            sys.stdout.buffer.write(b"Content-Length: 99999999999\r\n\r\n")
            sys.stdout.buffer.flush()
        elif manner == "babbles":
            sys.stdout.buffer.write(b"x" * 1_000_000)
            sys.stdout.buffer.flush()
        elif manner == "halves":
            sys.stdout.buffer.write(b'Content-Length: 100\r\n\r\n{"id": 1')
            sys.stdout.buffer.flush()
            sys.exit()
        elif manner == "mistakes ids":
            for other in (id + 1000, str(id), None, [id], {"id": id}):
                send({"id": other, "result": {"contents": "for nobody"}})
            send({"id": "ours", "method": "workspace/configuration", "params": {"items": 5}})
            assert read()["error"]["code"] == -32602
            for words in ("a thing", "twice"):
                send({"id": id, "result": {"contents": words}})
        else:
            send({"id": id, "result": {"contents": "a thing"}})
    elif method == "textDocument/rename" and manner == "renames":
        folder = message["params"]["textDocument"]["uri"].rpartition("/")[0]
        there = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
        edits = [{"range": there, "newText": message["params"]["newName"]}]
        send({"id": id, "result": {"changes": {f"{folder}/{name}.odd": edits for name in "abc"}}})
    elif method == "textDocument/rename":
        there = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}
        edits = [{"range": there, "newText": "x"}]
        send({"id": id, "result": {"changes": {"file:///etc/passwd": edits}}})
    elif method == "shutdown":
        send({"id": id, "result": None})
    elif method == "exit":
        break
