"""An agent that plays a script: the very messages that real agents send, in their order.

    player.py SCRIPT    a JSON list of steps, or an object with `capabilities` and `steps`

Each step is one of these, `$CWD` standing for the session's directory in all of them:

    {"update": {…}}          a session update
    {"ask": {…}}             session/request_permission with these params
    {"call": "fs/…", …}      any other request of the client, with `params`
    {"unless_denied": […]}   steps that are played if the last question was answered with an option that allows
    {"stop": "cancelled"}    how the prompt is answered (default: end_turn)

Before the answer comes a message with all answers, as JSON.  It speaks raw lines and knows nothing of the library.
"""

import itertools
import json
import sys
from pathlib import Path

IDS = itertools.count(1)


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive():
    return json.loads(sys.stdin.readline() or "null") or sys.exit()


def call(method, params):
    """Ask the client, and give the whole answer."""
    number = next(IDS)
    send(id=number, method=method, params=params)
    while True:
        message = receive()
        if message.get("id") == number and "method" not in message:
            return message.get("result", message.get("error"))


class Player:
    def __init__(self, cwd, session):
        self.cwd, self.session = cwd, session
        self.answers = []
        self.stop = "end_turn"
        self.allowed = False

    def play(self, steps):
        for step in steps:
            if "unless_denied" in step:
                if self.allowed:
                    self.play(step["unless_denied"])
                continue
            step = json.loads(json.dumps(step).replace("$CWD", self.cwd))
            if "update" in step:
                send(method="session/update", params={"sessionId": self.session, "update": step["update"]})
            elif "ask" in step:
                self.ask(step["ask"])
            elif "call" in step:
                self.request(step["call"], {"sessionId": self.session, **step["params"]})
            elif "stop" in step:
                self.stop = step["stop"]

    def ask(self, params):
        answer = call("session/request_permission", {"sessionId": self.session, **params})
        kinds = {option["optionId"]: option["kind"] for option in params["options"]}
        chosen = answer.get("outcome", {}).get("optionId")
        self.allowed = kinds.get(chosen, "").startswith("allow")
        self.answers.append(chosen or "cancelled")

    def request(self, method, params):
        answer = call(method, params)
        self.answers.append(answer)
        if method == "terminal/create" and "terminalId" in answer:
            which = {"sessionId": params["sessionId"], "terminalId": answer["terminalId"]}
            for then in ("terminal/wait_for_exit", "terminal/output", "terminal/release"):
                self.answers.append(call(then, which))


def main():
    script = json.loads(Path(sys.argv[1]).read_text())
    script = script if isinstance(script, dict) else {"steps": script}
    cwd = ""
    while True:
        message = receive()
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            capabilities = script.get("capabilities", {})
            send(id=id, result={"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": []})
        elif method in ("session/new", "session/load", "session/resume"):
            cwd = message["params"]["cwd"]
            send(id=id, result={"sessionId": "played"} if method == "session/new" else {})
        elif method == "session/prompt":
            player = Player(cwd, message["params"]["sessionId"])
            player.play(script["steps"])
            said = {"type": "text", "text": json.dumps(player.answers)}
            update = {"sessionUpdate": "agent_message_chunk", "content": said}
            send(method="session/update", params={"sessionId": player.session, "update": update})
            send(id=id, result={"stopReason": player.stop})


if __name__ == "__main__":
    main()
