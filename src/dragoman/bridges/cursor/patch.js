// What Cursor's bundle calls instead of its own server when the model's name begins with "acp:".
//
//   const bridge = acpExtensionBridge({ token });
//   if (bridge.handles(modelName)) return bridge.submitChatMaybeAbortCurrent(composer, message);
//
// `composer` is how the chat shows what happens: onBubble, onText, onThinking, onUpdate, onGenerating, onPermission
// (gives the id of the option the user chose, or null), onDone and onError.  Each may be left out.

const MODEL = "acp:";

/** The bridge that `dragoman cursor` serves at `url`; `fetch` can be another one. */
export function acpExtensionBridge({ token, url = "http://localhost:37842", fetch = globalThis.fetch }) {
  async function request(method, path, body, signal) {
    const headers = { authorization: `Bearer ${token}` };
    if (body !== undefined) headers["content-type"] = "application/json";
    const answer = await fetch(url + path, {
      method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error ?? `status ${answer.status}`);
    return answer;
  }
  const ask = async (...asked) => (await request(...asked)).json();

  async function follow(answer, composer) {
    let last = null;
    for await (const event of events(answer.body)) {
      last = event;
      await show(event, composer);
    }
    return last;
  }

  async function show(event, composer) {
    switch (event.type) {
      case "bubble": return composer.onBubble?.(event.bubble);
      case "text": return composer.onText?.(event.bubbleId, event.text);
      case "thinking": return composer.onThinking?.(event.bubbleId, event.text);
      case "update": return composer.onUpdate?.(event.bubbleId, event.update);
      case "generating": return composer.onGenerating?.(event.generating);
      case "permission": {
        // Not awaited: the turn goes on beside the question, and may be aborted meanwhile.
        Promise.resolve(composer.onPermission?.(event) ?? null).then(
          (optionId) => bridge.answer(event.composerId, event.requestId, optionId)).catch(() => {});
        return;
      }
      case "permissionAnswered": return composer.onPermissionAnswered?.(event);
      case "done": return composer.onDone?.(event.stopReason);
      case "error": return composer.onError?.(event.message);
    }
  }

  const bridge = {
    handles: (modelName) => modelName.startsWith(MODEL),
    models: async () => (await ask("GET", "/acp/agents")).models,
    sessions: async () => (await ask("GET", "/acp/sessions")).sessions,
    session: (composerId) => ask("GET", `/acp/sessions/${composerId}`),
    remove: (composerId) => ask("DELETE", `/acp/sessions/${composerId}`),
    abort: (composerId) => ask("POST", "/acp/abort", { composerId }),
    answer: (composerId, requestId, optionId) =>
      ask("POST", "/acp/permission", { composerId, requestId, optionId }),
    /** Send a message; a turn that runs in the composer is aborted first.  Gives the last event. */
    async submitChatMaybeAbortCurrent(composer, { composerId, modelName, text, prompt, workspacePath }) {
      const body = { composerId, modelName, text, prompt, workspacePath };
      return follow(await request("POST", "/acp/sendMessage", body), composer);
    },
  };
  return bridge;
}

async function* events(stream) {
  const decoder = new TextDecoder();
  let text = "";
  for await (const piece of stream) {
    text += decoder.decode(piece, { stream: true });
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const line = text.slice(0, end);
      if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
    }
  }
}
