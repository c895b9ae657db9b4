// The official TypeScript SDK's server in the remote benchmark; its adapter for Node knows no HTTP/2.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(new URL("./.cache/typescript/", import.meta.url));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const acp = await load("@agentclientprotocol/sdk");
const { AcpServer } = await load("@agentclientprotocol/sdk/experimental/server");
const { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } = await load("@agentclientprotocol/sdk/experimental/node");

const CHUNK = "a few words at a time";

async function answer({ params: { sessionId, prompt }, client }) {
  for (let left = Number(prompt[0].text.split(" ")[1]); left > 0; left--) {
    await client.notify(acp.methods.client.session.update, {
      sessionId,
      update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text: CHUNK } },
    });
  }
  return { stopReason: "end_turn" };
}

const createAgent = () =>
  acp
    .agent({ name: "bench" })
    .onRequest(acp.methods.agent.initialize, () => ({ protocolVersion: acp.PROTOCOL_VERSION, agentCapabilities: {} }))
    .onRequest(acp.methods.agent.session.new, () => ({ sessionId: randomUUID() }))
    .onRequest(acp.methods.agent.session.prompt, answer);

const [wire, port] = process.argv.slice(2);
const server = new AcpServer({ createAgent });
const listener = createServer(createNodeHttpHandler(server));
if (wire === "websocket") {
  const { WebSocketServer } = require("ws");
  listener.on("upgrade", createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true })));
}
listener.listen(Number(port), "127.0.0.1");
