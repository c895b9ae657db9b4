// The official TypeScript SDK as a contender: node typescript.mjs SCENARIO SIZE prints the figures as one JSON object.
// What each scenario does is told in scenarios.py, which does the same in Python.

import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";

const require = createRequire(new URL("./.cache/typescript/", import.meta.url));
const SDK = pathToFileURL(require.resolve("@agentclientprotocol/sdk")).href;
const acp = await import(SDK);

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const AGENT = [process.execPath, here("typescript_agent.mjs")];
const [SMALL, LARGE] = ["/small.txt", "/large.py"];
const MEBIBYTE = 1024 * 1024;
const CHUNKS_PER_PROMPT = 5;
const SESSIONS_BEFORE = 50;

const line = (index) =>
  `    return {"index": ${String(index).padStart(6)}, "words": ["an ordinary", "line of code"]}  # quotes, brackets and all\n`;
const lines = Math.floor(MEBIBYTE / line(0).length) + 1;
const documents = {
  [SMALL]: "Hello.\n",
  [LARGE]: Array.from({ length: lines }, (_, index) => line(index)).join("").slice(0, MEBIBYTE),
};

const median = (samples) => [...samples].sort((one, other) => one - other)[Math.floor(samples.length / 2)];
const resident = (pid) => Number(/Rss:\s*(\d+)/.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))[1]) * 1024;

const app = acp
  .client({ name: "bench" })
  .onRequest(acp.methods.client.fs.readTextFile, ({ params }) => ({ content: documents[params.path] }));

// A client that has shaken hands with an agent in another process.
function open([program, ...words] = AGENT) {
  const agent = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"] });
  const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
  return new Promise((opened, failed) => {
    let leave;
    const left = new Promise((resolve) => (leave = resolve));
    const over = app.connectWith(stream, async (context) => {
      await context.request(acp.methods.agent.initialize, {
        protocolVersion: acp.PROTOCOL_VERSION,
        clientCapabilities: { fs: { readTextFile: true } },
      });
      opened({
        pid: agent.pid,
        newSession: () => context.buildSession(process.cwd()).start(),
        async close() {
          leave();
          await over;
          agent.kill();
        },
      });
      await left;
    });
    over.catch(failed);
  });
}

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

async function withSession(work, command) {
  const link = await open(command);
  const figures = await work(await link.newSession(), link);
  await link.close();
  return figures;
}

const readingFile = (path, warmUp) => (size) =>
  withSession(async (session) => {
    const reads = (count) => turn(session, `read ${path} ${count} ${documents[path].length}`, 0);
    await reads(warmUp(size));
    return await rate(size, () => reads(size));
  });

const scenarios = {
  async import(size) {
    const code = `
      const before = performance.now();
      await import(${JSON.stringify(SDK)});
      const seconds = (performance.now() - before) / 1000;
      const { readFileSync } = await import("node:fs");
      console.log(seconds, /Rss:\\s*(\\d+)/.exec(readFileSync("/proc/self/smaps_rollup", "utf8"))[1]);`;
    const samples = Array.from({ length: size }, () =>
      execFileSync(process.execPath, ["--input-type=module", "-e", code], { encoding: "utf8" }).split(" ").map(Number),
    );
    return {
      import: median(samples.map(([seconds]) => seconds)),
      "memory.import": median(samples.map(([, kibibytes]) => kibibytes * 1024)),
    };
  },
  async start(size) {
    const samples = [];
    for (let i = 0; i < size; i++) {
      const before = performance.now();
      const link = await open();
      samples.push((performance.now() - before) / 1000);
      await link.close();
    }
    return { start: median(samples) };
  },
  prompts: (size) =>
    withSession(async (session) => {
      const prompts = async (count) => {
        for (let i = 0; i < count; i++) await turn(session, "say 0", 0);
      };
      await prompts(size / 10);
      return { "round_trips.prompt": await rate(size, () => prompts(size)) };
    }),
  reads: async (size) => ({ "round_trips.read": await readingFile(SMALL, (count) => count / 10)(size) }),
  files: async (size) => ({ files: await readingFile(LARGE, () => 2)(size) }),
  streaming: (size) =>
    withSession(async (session) => {
      const stream = (count) => turn(session, `say ${count}`, count);
      await stream(size / 20);
      return { streaming: await rate(size, () => stream(size)) };
    }),
  async spelling(size) {
    const figures = {};
    for (const spelling of ["compact", "spaced", "reordered", "escaped"]) {
      const stream = async (session) => {
        await turn(session, `say ${size / 20}`, size / 20);
        return await rate(size, () => turn(session, `say ${size}`, size));
      };
      const command = [process.env.PYTHON ?? "python3", here("spelling_agent.py"), spelling];
      figures[`streaming.${spelling}`] = await withSession(stream, command);
    }
    return figures;
  },
  async in_flight(size) {
    const link = await open();
    const sessions = [];
    for (let i = 0; i < 1000; i++) sessions.push(await link.newSession());
    const figures = {};
    for (const width of [1, 100, 1000]) {
      const rounds = Math.max(1, Math.floor(size / width));
      const together = async (count) => {
        for (let i = 0; i < count; i++) {
          const some = sessions.slice(0, width);
          await Promise.all(some.map((session) => turn(session, `say ${CHUNKS_PER_PROMPT}`, CHUNKS_PER_PROMPT)));
        }
      };
      await together(Math.max(1, Math.floor(rounds / 10)));
      figures[`in_flight.${width}`] = await rate(width * rounds, () => together(rounds));
    }
    await link.close();
    return figures;
  },
  async memory(size) {
    const link = await open();
    const figures = { "memory.agent": resident(link.pid) };
    const sessions = [];
    for (let i = 0; i < SESSIONS_BEFORE; i++) sessions.push(await link.newSession());
    const [client, agent] = [resident(process.pid), resident(link.pid)];
    for (let i = 0; i < size; i++) sessions.push(await link.newSession());
    figures["memory.session.client"] = (resident(process.pid) - client) / size;
    figures["memory.session.agent"] = (resident(link.pid) - agent) / size;
    const before = resident(process.pid);
    const links = [link];
    for (let i = 0; i < size / 50; i++) links.push(await open());
    figures["memory.connection"] = (resident(process.pid) - before) / (size / 50);
    for (const each of links) await each.close();
    return figures;
  },
};

const [scenario, size] = process.argv.slice(2);
console.log(JSON.stringify(await scenarios[scenario](Number(size))));
process.exit();
