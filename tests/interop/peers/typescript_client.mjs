// A client of the official TypeScript SDK: `typescript_client.mjs FOLDER websocket|http URL` or `… stdio PROGRAM ARGUMENT…`.
// It has one conversation with Dragoman's agent "testy" and prints what it heard as JSON.

import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [folder, wire, target, ...rest] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/`));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const acp = await load("@agentclientprotocol/sdk");
let child;

async function stream() {
  if (wire === "websocket") {
    const { createWebSocketStream } = await load("@agentclientprotocol/sdk/experimental/ws-client");
    return createWebSocketStream(target, { WebSocket: require("ws") });
  }
  if (wire === "http") return (await load("@agentclientprotocol/sdk/experimental/http-client")).createHttpStream(target);
  child = spawn(target, rest, { stdio: ["pipe", "pipe", "inherit"] });
  return acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
}

const said = [];
let hear = () => {};
const heard = { asked: 0, ends: [] };

await acp
  .client({ name: "interop" })
  .onNotification(acp.methods.client.session.update, ({ params: { update } }) => {
    if (update.sessionUpdate !== "agent_message_chunk") return;
    said.push(update.content.text);
    hear();
  })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    heard.asked++;
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .connectWith(await stream(), async (agent) => {
    const { initialize, session } = acp.methods.agent;
    await agent.request(initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
    const { sessionId } = await agent.request(session.new, { cwd: "/", mcpServers: [] });
    const prompt = (text) => agent.request(session.prompt, { sessionId, prompt: [{ type: "text", text }] });
    for (const text of ["count", "ask"]) heard.ends.push((await prompt(text)).stopReason);
    hear = () => said.at(-1) === "waiting" && agent.notify(session.cancel, { sessionId });
    heard.ends.push((await prompt("wait")).stopReason);
  });
console.log(JSON.stringify({ ...heard, said }));
child?.kill();
process.exit(0);
