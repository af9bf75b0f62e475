// Runs as bars over time: turns, model calls, tools, subagents in the tools that asked for them. And what was said.
import { byId, clock, duration, empty, fill, h, setText, soon } from "./dom.js";
import { offer } from "./actions.js";
import { read, talk } from "./talk.js";

export class Runs {
  constructor(list, place) {
    this.list = list;
    this.place = place;
    this.steps = new Map();
    this.skew = 0;
    this.chosen = null;
    this.what = "time";
    this.later = soon(() => this.draw());
    list.addEventListener("keydown", (event) => this.key(event));
    setInterval(() => { if (this.someRun() && !document.hidden) this.later(); }, 1000);
    this.later();
  }

  all(steps) {
    this.steps = new Map(steps.map((step) => [step.n, step]));
    this.later();
  }

  take(step) {
    const before = this.steps.get(step.n);
    this.steps.set(step.n, step);
    if (this.chosen !== null && this.what === "talk" && step.kind !== "run" && step.to && !(before && before.to)) this.loadTalkLater();
    this.later();
  }

  forget(run) {
    for (const [n, step] of this.steps) if (step.run === run) this.steps.delete(n);
    this.later();
  }

  someRun() {
    for (const step of this.steps.values()) if (step.to === null) return true;
    return false;
  }

  // Runs that no tool of a run here asked for.
  tops() {
    return [...this.steps.values()].filter((step) => step.kind === "run" && !this.steps.has(step.parent)).sort((a, b) => (a.to === null ? 0 : 1) - (b.to === null ? 0 : 1) || b.n - a.n);
  }

  now() {
    return Date.now() + this.skew;
  }

  choose(n) {
    this.chosen = n;
    this.talkOf = null;
    if (this.what === "talk") this.loadTalk();
    this.later();
  }

  draw() {
    const tops = this.tops();
    setText(byId("runs-count"), tops.length ? String(tops.length) : "");
    if (!this.list.offsetParent) return;
    if (!this.steps.has(this.chosen)) this.chosen = tops.length ? tops[0].n : null;
    if (!tops.length) {
      fill(this.list, empty("▭", "No runs yet", "They appear here as agents begin to work."));
      fill(this.place, empty("◔", "Nothing to show", "A run shows its turns, model calls and tools over time."));
      return;
    }
    const items = tops.map((run) => {
      const tag = run.to === null ? ["now", "running"] : run.failure ? ["bad", run.failure] : ["good", "done"];
      return h("div", { class: "item", role: "option", "aria-selected": run.n === this.chosen, onmousedown: () => this.choose(run.n) },
        h("span", { class: "name" }, run.name), h("span", { class: "time" }, duration(Math.max(0, (run.to ?? this.now()) - run.from))),
        h("span", { class: "sub", title: run.session }, run.session ? `…${run.session.slice(-12)}` : "no session"), h("span", {}, h("span", { class: `tag ${tag[0]}` }, tag[1])));
    });
    const scroll = this.list.scrollTop;
    fill(this.list, items);
    this.list.scrollTop = scroll;
    this.drawRun(this.steps.get(this.chosen));
  }

  drawRun(run) {
    const session = run.session;
    const tab = (what, label) => h("button", { class: "chip", "aria-pressed": this.what === what, onclick: () => { this.what = what; if (what === "talk") this.loadTalk(); this.later(); } }, label);
    const head = h("div", { class: "bar" }, tab("time", "Timeline"), tab("talk", "Transcript"),
      this.what === "time" ? h("span", { class: "key" }, ["turn", "model", "tool", "failed"].map((kind) => h("span", {}, h("i", { class: kind }), kind))) : null,
      h("span", { class: "push" }), h("span", { class: "quiet small" }, this.sums(run)),
      session ? h("button", { data: { act: "steer" }, onclick: () => offer({ op: "steer", session }, "Steer the session", `The model of session ${session} reads this before its next call.`, "Send", true) }, "Steer") : null,
      session && run.to === null ? h("button", { class: "danger", data: { act: "abort" }, onclick: () => offer({ op: "abort", session }, "Abort the run?", `The run of session ${session} ends; what was said is kept.`, "Abort") }, "Abort") : null);
    const before = this.place.querySelector(".under");
    const scroll = before ? before.scrollTop : 0;
    const focused = this.place.contains(document.activeElement) ? document.activeElement.textContent : null;
    const under = h("div", { class: "under", tabindex: "0" }, this.what === "time" ? this.bars(run) : this.talkNow());
    fill(this.place, head, under);
    under.scrollTop = scroll;
    if (focused) [...this.place.querySelectorAll("button")].find((one) => one.textContent === focused)?.focus();
  }

  // All steps of a run and of the runs below it, each after what it belongs to, with how deep it stands.
  inside(run) {
    const below = new Map();
    for (const step of this.steps.values()) {
      if (!below.has(step.parent)) below.set(step.parent, []);
      below.get(step.parent).push(step);
    }
    const found = [];
    const visit = (step, depth) => {
      found.push([step, depth]);
      for (const child of (below.get(step.n) || []).sort((a, b) => a.n - b.n)) visit(child, depth + (step.kind === "run" ? (child.kind === "turn" ? 1 : 2) : 1));
    };
    visit(run, 0);
    return found;
  }

  sums(run) {
    const steps = this.inside(run).map(([step]) => step);
    const count = (kind, word) => { const n = steps.filter((step) => step.kind === kind).length; return n ? `${n} ${word}${n === 1 ? "" : "s"}` : ""; };
    const tokens = steps.reduce((sum, step) => sum + (step.tokens || 0), 0);
    const cost = steps.reduce((sum, step) => sum + (step.cost || 0), 0);
    return [count("model", "model call"), count("tool", "tool call"), tokens ? `${tokens.toLocaleString("en")} tokens out` : "", cost ? `$${cost.toFixed(4)}` : ""].filter(Boolean).join(" · ");
  }

  bars(run) {
    const steps = this.inside(run);
    const now = this.now();
    const from = run.from;
    const to = Math.max(from + 1, ...steps.map(([step]) => step.to ?? now));
    const share = (ms) => `${((100 * (ms - from)) / (to - from)).toFixed(3)}%`;
    const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => {
      const mark = h("span", {}, part === 0 ? clock(from) : `+${duration(part * (to - from))}`);
      mark.style.left = `${part * 100}%`;
      return mark;
    });
    const rows = steps.map(([step, depth]) => {
      const end = Math.max(step.from, step.to ?? now);
      const bar = h("div", { class: "barre" });
      bar.style.left = share(step.from);
      bar.style.width = `calc(${share(end)} - ${share(step.from)})`;
      const took = h("span", { class: "took" }, duration(end - step.from), step.failure ? ` · ${step.failure}` : "", step.tokens ? ` · ${step.tokens} tokens` : "");
      if ((end - from) / (to - from) > 0.7) {
        took.style.right = `calc(100% - ${share(step.from)} + 6px)`;
      } else took.style.left = `calc(${share(end)} + 6px)`;
      if ((step.from - from) / (to - from) < 0.2 && (end - from) / (to - from) > 0.7) took.hidden = step.kind !== "tool" || !step.failure;
      const label = h("span", { class: "label" }, step.kind === "turn" ? `turn ${step.name}` : step.name);
      label.style.paddingLeft = `${16 + depth * 12}px`;
      return h("div", { class: `step${step.failure ? " failed" : ""}${step.to === null ? " open" : ""}`, data: { kind: step.kind }, title: `${step.kind} ${step.name}: ${duration(end - step.from)}${step.failure ? `, ${step.failure}` : ""}` },
        label, h("div", { class: "lane" }, bar, took));
    });
    return [h("div", { class: "scale", "aria-hidden": "true" }, marks), rows];
  }

  // What was said.

  loadTalkLater() {
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.loadTalk(), 300);
  }

  async loadTalk() {
    const run = this.steps.get(this.chosen);
    if (!run || !run.session) return;
    const session = run.session;
    try {
      this.talkOf = await read(session, this.talkOf);
    } catch (error) {
      this.talkOf = { id: session, problem: error.message };
    }
    this.later();
  }

  talkNow() {
    const run = this.steps.get(this.chosen);
    if (!run.session) return empty("…", "No session", "This run belongs to no session that can be shown.");
    if (!this.talkOf || this.talkOf.id !== run.session) return empty("…", "Reading the session");
    if (this.talkOf.problem) return empty("…", "It cannot be shown", this.talkOf.problem);
    return talk(this.talkOf);
  }

  key(event) {
    const tops = this.tops();
    const at = tops.findIndex((run) => run.n === this.chosen);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: tops.length - 1 }[event.key];
    if (to === undefined || !tops.length) return;
    event.preventDefault();
    this.choose(tops[Math.max(0, Math.min(tops.length - 1, to))].n);
  }
}
