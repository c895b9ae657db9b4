// The official TypeScript client uses tasks of MCP 2025-11-25.  Arguments: the folder of the SDK, the session's text, then
// the server's command.  Its user says yes to everything.  Prints what it heard, a line of JSON each.
const [sdk, text, command, ...args] = process.argv.slice(2);
const { Client } = await import(`${sdk}/client/index.js`);
const { StdioClientTransport } = await import(`${sdk}/client/stdio.js`);
const { CallToolResultSchema, ElicitRequestSchema } = await import(`${sdk}/types.js`);

const tell = (message) => console.log(JSON.stringify(message));
const client = new Client({ name: "host", version: "1" }, { capabilities: { elicitation: { form: {} } } });
client.setRequestHandler(ElicitRequestSchema, async (request) => {
  tell({ type: "question", text: request.params.message });
  return { action: "accept", content: { decision: "allow_once" } };
});
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));
await client.listTools();
const tasks = client.experimental.tasks;
for await (const message of tasks.callToolStream({ name: "prompt", arguments: { text } }, CallToolResultSchema, {
  task: { ttl: 60000 },
})) {
  tell(message);
  if (message.type === "taskCreated" && text === "wait") await tasks.cancelTask(message.task.taskId);
}
await client.close();
