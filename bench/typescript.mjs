// The official TypeScript SDK as a contender: node typescript.mjs SCENARIO SIZE prints the figures as one JSON object.

import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";

const require = createRequire(new URL("./.cache/typescript/", import.meta.url));
const acp = await import(pathToFileURL(require.resolve("@agentclientprotocol/sdk")).href);

const SMALL = "/small.txt";
const CONTENT = "Hello.\n";

async function turn(session, text, expected) {
  let updates = 0;
  const answered = session.prompt(text);
  while ((await session.nextUpdate()).kind !== "stop") updates += 1;
  await answered;
  if (updates !== expected) throw new Error(`${updates} updates arrived, not ${expected}`);
}

async function rate(size, work) {
  const before = performance.now();
  await work();
  return (size * 1000) / (performance.now() - before);
}

const scenarios = {
  async prompts(session, size) {
    const prompts = async (count) => {
      for (let i = 0; i < count; i++) await turn(session, "say 0", 0);
    };
    await prompts(size / 10);
    return { "round_trips.prompt": await rate(size, () => prompts(size)) };
  },
  async reads(session, size) {
    const reads = (count) => turn(session, `read ${SMALL} ${count} ${CONTENT.length}`, 0);
    await reads(size / 10);
    return { "round_trips.read": await rate(size, () => reads(size)) };
  },
  async streaming(session, size) {
    const stream = (count) => turn(session, `say ${count}`, count);
    await stream(size / 20);
    return { streaming: await rate(size, () => stream(size)) };
  },
};

const [scenario, size] = process.argv.slice(2);
const agent = spawn(process.execPath, [fileURLToPath(new URL("typescript_agent.mjs", import.meta.url))], {
  stdio: ["pipe", "pipe", "inherit"],
});
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const app = acp
  .client({ name: "bench" })
  .onRequest(acp.methods.client.fs.readTextFile, () => ({ content: CONTENT }));
const figures = await app.connectWith(stream, async (context) => {
  await context.request(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: true } },
  });
  const session = await context.buildSession(process.cwd()).start();
  return await scenarios[scenario](session, Number(size));
});
console.log(JSON.stringify(figures));
agent.kill();
