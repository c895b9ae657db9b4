// The official TypeScript SDK's agent in the benchmark.

import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const require = createRequire(new URL("./.cache/typescript/", import.meta.url));
const acp = await import(pathToFileURL(require.resolve("@agentclientprotocol/sdk")).href);

const CHUNK = "a few words at a time";

async function answer({ params: { sessionId, prompt }, client }) {
  const [order, ...rest] = prompt[0].text.split(" ");
  if (order === "say") {
    for (let left = Number(rest[0]); left > 0; left--) {
      await client.notify(acp.methods.client.session.update, {
        sessionId,
        update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text: CHUNK } },
      });
    }
  } else {
    const [path, count, size] = rest;
    for (let left = Number(count); left > 0; left--) {
      const { content } = await client.request(acp.methods.client.fs.readTextFile, { sessionId, path });
      if (content.length !== Number(size)) throw new Error(`${content.length} characters arrived, not ${size}`);
    }
  }
  return { stopReason: "end_turn" };
}

acp
  .agent({ name: "bench" })
  .onRequest(acp.methods.agent.initialize, () => ({ protocolVersion: acp.PROTOCOL_VERSION, agentCapabilities: {} }))
  .onRequest(acp.methods.agent.session.new, () => ({ sessionId: randomUUID() }))
  .onRequest(acp.methods.agent.session.prompt, answer)
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
