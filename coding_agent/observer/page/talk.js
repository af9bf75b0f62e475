// A conversation as it is stored: plain text, whoever wrote it. Of one that goes on only what is new is fetched and drawn.
import { empty, h } from "./dom.js";
import { ask } from "./feed.js";

const KEPT = 1000;
const drawn = new WeakMap();

// What is said in a session by now, beginning with what `known` has of it.
export async function read(session, known) {
  const have = known && known.id === session && known.mark ? `?have=${encodeURIComponent(known.mark)}` : "";
  const told = await ask(`api/session/${encodeURIComponent(session)}${have}`);
  if (!told.goes_on) return told;
  const messages = [...known.messages, ...told.messages];
  const over = Math.max(0, messages.length - KEPT);
  return { ...told, messages: messages.slice(over), left_out: known.left_out + over };
}

const WHO = { user: "Person", assistant: "Model", toolResult: "Tool", custom: "Note", compactionSummary: "Summary", branchSummary: "Summary", bashExecution: "Command" };

export function talk({ state, messages, left_out: leftOut }) {
  if (!messages.length) return empty("…", "Nothing was said yet");
  return h("div", { class: "talk" },
    h("p", { class: "quiet small" }, [state.model, state.phase, state.cwd].filter(Boolean).join(" · ")),
    leftOut ? h("p", { class: "notice" }, `${leftOut} earlier messages are not shown.`) : null,
    messages.map((message) => {
      if (!drawn.has(message)) drawn.set(message, said(message));
      return drawn.get(message);
    }));
}

function said(message) {
  const role = String(message.role || "note");
  const blocks = Array.isArray(message.content) ? message.content : [{ type: "text", text: String(message.content ?? message.summary ?? message.output ?? "") }];
  const name = role === "toolResult" ? `${message.toolName || "tool"} answered` : WHO[role] || role;
  return h("div", { class: `said ${/^[A-Za-z]+$/.test(role) ? role : ""}${message.isError || message.errorMessage ? " failed" : ""}` },
    h("div", { class: "who" }, name),
    blocks.map(block), message.errorMessage ? h("div", { class: "notice bad" }, message.errorMessage) : null);
}

function block(one) {
  if (one.type === "text") return one.text ? h("div", { class: "text" }, one.text) : null;
  if (one.type === "thinking") return one.thinking ? h("div", { class: "thought" }, one.thinking) : null;
  if (one.type === "toolCall") return h("div", { class: "call" }, `${one.name} ${JSON.stringify(one.arguments ?? {}, null, 1)}`);
  if (one.type === "image") return h("div", { class: "call" }, "a picture");
  return h("div", { class: "call" }, JSON.stringify(one));
}
