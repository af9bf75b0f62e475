// One process: what it is, where it stands, what it holds, what waits for it; and what can be done with it.
import { duration, empty, fill, h } from "./dom.js";
import { ask } from "./feed.js";
import { offer } from "./actions.js";
import { read, talk } from "./talk.js";

const EVERY_MS = 2000;

const ACTS = {
  suspend: ["Suspend", "It serves nobody until it is resumed; its messages wait."],
  resume: ["Resume", "It goes on with what has come meanwhile."],
  restart: ["Restart", "It is stopped and its supervisor starts it again."],
  stop: ["Stop", "It is asked to end in order and stays stopped."],
  kill: ["Kill", "It ends at once, whatever it is doing. Its supervisor may start it again."],
};

export class Details {
  constructor(place, find) {
    this.place = place;
    this.find = find;
    this.pid = null;
    this.last = "";
    this.clear();
    setInterval(() => { if (this.pid !== null && !document.hidden && place.offsetParent) this.load(); }, EVERY_MS);
  }

  clear() {
    this.pid = null;
    fill(this.place, empty("◎", "Choose a process", h("span", {}, h("kbd", {}, "↑"), " ", h("kbd", {}, "↓"), " move, ", h("kbd", {}, "←"), " ", h("kbd", {}, "→"), " fold, ", h("kbd", {}, "/"), " find")));
  }

  show(key, row) {
    this.row = row;
    this.last = "";
    if (typeof key !== "number") {
      this.pid = null;
      fill(this.place, h("h2", {}, row[1]), h("div", { class: "under" }, h("span", { class: "state", data: { state: row[5] } }, row[5])), h("p", { class: "quiet" }, row[4] === "more" ? "More processes than can be listed." : "It has no process now."),
        row[4] === "more" ? null : h("p", { class: "acts" }, this.button("restart", row[1], row[1])));
      return;
    }
    this.pid = key;
    this.place.scrollTop = 0;
    this.load();
  }

  async load() {
    const pid = this.pid;
    let told;
    try {
      told = await ask(`api/node/${pid}`);
    } catch (error) {
      if (pid === this.pid) this.gone(error);
      return;
    }
    const text = JSON.stringify(told);
    if (pid !== this.pid || text === this.last || this.place.contains(getSelectionHere())) return;
    this.last = text;
    const focused = this.place.contains(document.activeElement) ? document.activeElement.dataset.act : null;
    const scroll = this.drawnPid === pid ? this.place.scrollTop : 0;
    this.drawnPid = pid;
    this.draw(told);
    this.place.scrollTop = scroll;
    if (focused) this.place.querySelector(`[data-act="${focused}"]`)?.focus();
  }

  gone(error) {
    const over = error.status === 404;
    fill(this.place, h("h2", {}, this.row ? this.row[1] : `pid ${this.pid}`), over ? h("p", { class: "notice" }, "This process has ended.") : h("div", { class: "notice bad" }, error.message));
    if (over) this.pid = null;
  }

  ofSession(session) {
    return [
      h("button", { data: { act: "talk" }, onclick: () => this.read(session) }, "Transcript"),
      h("button", { data: { act: "steer" }, onclick: () => offer({ op: "steer", session }, "Steer the session", `The model of session ${session} reads this before its next call.`, "Send", true) }, "Steer"),
      h("button", { class: "danger", data: { act: "abort" }, onclick: () => offer({ op: "abort", session }, "Abort the run?", `The run of session ${session} ends; what was said is kept.`, "Abort") }, "Abort"),
    ];
  }

  async read(session) {
    const pid = this.pid;
    this.pid = null;
    const back = h("button", { onclick: () => { this.pid = pid; this.last = ""; this.load(); } }, "Back");
    let said;
    try {
      this.talkOf = await read(session, this.talkOf);
      said = talk(this.talkOf);
    } catch (error) {
      said = h("div", { class: "notice bad" }, error.message);
    }
    if (this.pid !== null) return; // another process was chosen meanwhile
    fill(this.place, h("h2", {}, "Transcript"), h("div", { class: "under" }, h("span", { class: "mono quiet" }, session)), h("div", { class: "acts" }, back), said);
    this.place.scrollTop = 0;
    back.focus();
  }

  button(op, target, name) {
    const [label, text] = ACTS[op];
    return h("button", { class: op === "kill" ? "danger" : "", data: { act: op }, onclick: () => offer({ op, target }, `${label} ${name}?`, text, label) }, label);
  }

  draw({ info, stack, state, messages }) {
    const name = info.process ?? info.id;
    const dead = info.state === "dead";
    const session = /^session\[([^\]]+)\]$/.exec(name)?.[1];
    const hold = info.state === "suspended" ? ["resume"] : state.ok ? ["suspend"] : [];
    const again = info.child && info.child.restart !== "temporary" ? ["restart"] : [];
    const acts = dead ? [] : [...hold, ...again, "stop", "kill"];
    const link = (to) => (to && typeof to === "object" ? h("button", { class: "link", onclick: () => this.find(to.pid) }, `${to.id} <${to.pid}>`) : String(to));
    const links = (list) => list.slice(0, 24).map((one) => h("div", {}, link(one))).concat(list.length > 24 ? [`and ${list.length - 24} more`] : []);
    const facts = Object.entries(info.facts || {});
    const pairs = [
      ...facts.map(([name, value]) => [name, value]),
      ["module", info.module], ["started with", info.initial_call], ["supervisor", info.supervisor && link(info.supervisor)],
      ["restart", info.child && `${info.child.restart}${info.child.restarts ? `, ${info.child.restarts} so far` : ""}`],
      ["working on", info.current_message], ["for", info.elapsed_s === null || info.elapsed_s === undefined ? null : duration(info.elapsed_s * 1000)],
      ["messages handled", info.messages_handled && info.messages_handled.toLocaleString("en")], ["memory, about", info.memory_bytes && bytes(info.memory_bytes)],
      ["ended", info.exit_reason],
    ];
    fill(this.place,
      h("h2", {}, name),
      h("div", { class: "under" }, h("span", { class: "state", data: { state: info.state } }, info.state), h("span", { class: "mono quiet" }, `pid ${info.pid}`)),
      h("div", { class: "acts" }, acts.map((op) => this.button(op, info.pid, name)), session && !dead ? this.ofSession(session) : null),
      h("h3", {}, "What it is"),
      h("dl", {}, pairs.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, value)])),
      h("h3", {}, "Where it stands"),
      stack.ok && stack.frames.length ? h("ol", { class: "frames" }, stack.frames.map(frame)) : h("p", { class: "quiet small" }, stack.ok ? "It waits for a message." : stack.error),
      (stack.helpers || []).map((helper) => [h("h3", {}, `Its thread, ${helper.process ?? helper.id}`), h("ol", { class: "frames" }, helper.frames.map(frame))]),
      h("h3", {}, `Mailbox${info.mailbox_length ? `, ${info.mailbox_length}` : ""}`),
      messages.ok && messages.messages.length ? h("ol", { class: "mail" }, messages.messages.map((text) => h("li", {}, text))) : h("p", { class: "quiet small" }, messages.ok ? "Nothing waits." : messages.error),
      h("h3", {}, "State"),
      state.ok ? h("pre", { tabindex: "0" }, state.value) : h("p", { class: "quiet small" }, state.error),
      info.links.length || info.monitors.length || info.monitored_by.length ? [
        h("h3", {}, "Ties"),
        h("dl", {}, [["links", info.links], ["watches", info.monitors], ["watched by", info.monitored_by]].filter(([, list]) => list.length)
          .map(([name, list]) => [h("dt", {}, name), h("dd", {}, links(list))])),
      ] : null);
  }
}

function getSelectionHere() {
  const selection = getSelection();
  return selection && !selection.isCollapsed ? selection.anchorNode : null;
}

function frame(one) {
  return h("li", {}, h("div", { class: "code" }, one.line || one.function), h("div", { class: "at" }, `${one.file}:${one.line_number} ${one.function}`));
}

function bytes(count) {
  return count < 10_000 ? `${count} bytes` : count < 10_000_000 ? `${Math.round(count / 1000)} kB` : `${(count / 1e6).toFixed(1)} MB`;
}
