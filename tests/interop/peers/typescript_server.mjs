// An agent of the official TypeScript SDK: `typescript_server.mjs FOLDER stdio|remote`; a remote one prints its port.
// It counts to a number, asks for permission, reads a file, or waits to be cancelled, as its prompt says.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [folder, wire] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/`));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const acp = await load("@agentclientprotocol/sdk");
const cancelled = new Map();

async function answer({ params: { sessionId, prompt }, client }) {
  const say = (text) =>
    client.notify(acp.methods.client.session.update, {
      sessionId,
      update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
    });
  const [order, rest] = prompt[0].text.split(" ");
  if (order === "count") for (let number = 0; number < Number(rest); number++) await say(String(number));
  if (order === "echo") await say(prompt[1].text);
  if (order === "read") await say((await client.request(acp.methods.client.fs.readTextFile, { sessionId, path: rest })).content);
  if (order === "ask") {
    const options = [{ optionId: "yes", name: "Yes", kind: "allow_once" }];
    const toolCall = { toolCallId: "call", title: "Ask" };
    const asked = await client.request(acp.methods.client.session.requestPermission, { sessionId, toolCall, options });
    await say(asked.outcome.optionId);
  }
  if (order === "wait") {
    const end = new Promise((resolve) => cancelled.set(sessionId, resolve));
    await say("waiting");
    await end;
    return { stopReason: "cancelled" };
  }
  return { stopReason: "end_turn" };
}

const createAgent = () =>
  acp
    .agent({ name: "interop" })
    .onRequest(acp.methods.agent.initialize, () => ({ protocolVersion: acp.PROTOCOL_VERSION, agentCapabilities: {} }))
    .onRequest(acp.methods.agent.session.new, () => ({ sessionId: randomUUID() }))
    .onRequest(acp.methods.agent.session.prompt, answer)
    .onNotification(acp.methods.agent.session.cancel, ({ params }) => cancelled.get(params.sessionId)?.());

if (wire === "stdio") {
  createAgent().connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
} else {
  const { AcpServer } = await load("@agentclientprotocol/sdk/experimental/server");
  const adapter = await load("@agentclientprotocol/sdk/experimental/node");
  const server = new AcpServer({ createAgent });
  const listener = createServer(adapter.createNodeHttpHandler(server));
  const { WebSocketServer } = require("ws");
  listener.on("upgrade", adapter.createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true })));
  listener.listen(0, "127.0.0.1", () => console.log(listener.address().port));
}
