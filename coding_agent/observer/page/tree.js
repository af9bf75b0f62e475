// The tree as a list in which only the rows in sight are elements: thousands of processes are as easy as ten.
import { byId, h, setText, soon, visible } from "./dom.js";

const HEIGHT = 26;
const MORE = 8;
const DEPTH = 0, ID = 1, PID = 2, MODULE = 3, KIND = 4, STATE = 5, MAILBOX = 6, RESTARTS = 7, RATE = 8, FACTS = 9;
const FIRST_FACTS = ["phase", "tool", "argument", "for", "model", "state", "tokens", "cost", "session"];
const PHASES = { model: "waits for the model", tool: "waits for", tools: "waits for tools", permission: "waits for permission to use", child: "waits for subagents", itself: "works", idle: "" };
const ALONE = ["phase", "argument", "for", "cost"];

export class Tree {
  constructor(list, select) {
    this.list = list;
    this.select = select;
    this.order = [];
    this.rows = new Map();
    this.folded = new Set();
    this.shown = [];
    this.parents = new Map();
    this.selected = null;
    this.search = "";
    this.sort = "tree";
    this.busyOnly = false;
    this.spacer = h("div", { class: "spacer", role: "presentation" });
    list.append(this.spacer);
    this.pool = [];
    this.later = soon(() => {
      if (this.stale) this.arrange();
      this.draw();
    });
    this.stale = true;
    list.addEventListener("scroll", () => this.later(), { passive: true });
    new ResizeObserver(() => this.later()).observe(list);
    list.addEventListener("keydown", (event) => this.key(event));
  }

  whole(order) {
    this.order = order;
    this.rows = new Map();
    this.stale = true;
    this.later();
  }

  change({ rows, order }) {
    if (rows) {
      const sorted = this.sort !== "tree" || this.busyOnly || this.search;
      for (const [key, row] of rows) {
        const before = this.rows.get(key);
        if (!before || before[DEPTH] !== row[DEPTH] || sorted) this.stale = true;
        this.rows.set(key, row);
      }
    }
    if (order) {
      this.order = order;
      const alive = new Set(order);
      for (const key of this.rows.keys()) if (!alive.has(key)) this.rows.delete(key);
      this.stale = true;
    }
    this.later();
  }

  again() {
    this.stale = true;
    this.later();
  }

  // Which rows are to be seen, in which order.
  arrange() {
    this.stale = false;
    const { rows, order } = this;
    const parents = this.parents = new Map();
    this.below = new Map();
    const path = [];
    for (const key of order) {
      const row = rows.get(key);
      if (!row) continue;
      path.length = row[DEPTH];
      const parent = path[row[DEPTH] - 1];
      if (parent !== undefined) {
        parents.set(key, parent);
        this.below.set(parent, (this.below.get(parent) || 0) + 1);
      }
      path[row[DEPTH]] = key;
    }
    const wanted = this.matching();
    if (this.sort !== "tree") {
      const field = { rate: RATE, mailbox: MAILBOX, restarts: RESTARTS }[this.sort];
      const found = order.filter((key) => rows.has(key) && (!wanted || wanted.has(key)));
      this.shown = found.sort((a, b) => rows.get(b)[field] - rows.get(a)[field]);
    } else if (wanted) {
      const kept = new Set(wanted);
      for (const key of wanted) for (let up = parents.get(key); up !== undefined && !kept.has(up); up = parents.get(up)) kept.add(up);
      this.shown = order.filter((key) => kept.has(key));
    } else {
      const shown = [];
      let hiddenBelow = Infinity;
      for (const key of order) {
        const row = rows.get(key);
        if (!row || row[DEPTH] > hiddenBelow) continue;
        hiddenBelow = this.folded.has(key) ? row[DEPTH] : Infinity;
        shown.push(key);
      }
      this.shown = shown;
    }
    this.spacer.style.height = `${this.shown.length * HEIGHT}px`;
    const count = this.shown.length, all = this.rows.size;
    setText(byId("shown"), count === all ? `${all.toLocaleString("en")} processes` : `${count.toLocaleString("en")} of ${all.toLocaleString("en")}`);
  }

  matching() {
    const words = this.search.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length && !this.busyOnly) return null;
    const found = new Set();
    for (const [key, row] of this.rows) {
      if (this.busyOnly && row[STATE] !== "busy" && row[STATE] !== "ready") continue;
      if (words.length) {
        const text = `${row[ID]} ${row[MODULE]} ${row[PID]} ${row[STATE]} ${Object.values(row[FACTS]).join(" ")}`.toLowerCase();
        if (!words.every((word) => text.includes(word))) continue;
      }
      found.add(key);
    }
    return found;
  }

  draw() {
    const top = Math.max(0, Math.floor(this.list.scrollTop / HEIGHT) - MORE);
    const count = Math.min(this.shown.length - top, Math.ceil(this.list.clientHeight / HEIGHT) + 2 * MORE);
    while (this.pool.length < count) this.pool.push(this.newRow());
    const used = new Set();
    for (let i = 0; i < count; i += 1) {
      const at = top + i;
      const slot = this.pool[at % this.pool.length];
      used.add(slot);
      this.show(slot, this.shown[at], at);
    }
    for (const slot of this.pool) if (!used.has(slot)) slot.row.hidden = true;
    const chosen = this.pool.find((slot) => slot.key === this.selected && !slot.row.hidden);
    if (chosen) this.list.setAttribute("aria-activedescendant", chosen.row.id);
    else this.list.removeAttribute("aria-activedescendant");
    this.none(this.shown.length === 0);
  }

  none(isEmpty) {
    if (isEmpty && !this.nothing) {
      this.nothing = h("div", { class: "empty" }, h("strong", {}, this.rows.size ? "No process fits" : "Waiting for the first look"), this.rows.size ? "Change the search or the filter." : "");
      this.list.append(this.nothing);
    } else if (!isEmpty && this.nothing) {
      this.nothing.remove();
      this.nothing = null;
    }
  }

  newRow() {
    const twist = h("button", { class: "twist", tabindex: "-1", "aria-hidden": "true" });
    const name = h("span", { class: "name" });
    const says = h("span", { class: "says" });
    const state = h("span", { class: "state" });
    const numbers = [0, 0, 0].map(() => h("span", { class: "c-num" }));
    const pid = h("span", { class: "c-pid" });
    const place = h("span", { class: "c-id" }, twist, name, says);
    const row = h("div", { class: "row", role: "treeitem", id: `row-${this.pool.length}` }, place, h("span", { class: "c-state" }, state), numbers, pid);
    const slot = { row, twist, name, says, state, numbers, pid, place, key: null, drawn: null, at: -1 };
    row.addEventListener("mousedown", () => this.choose(slot.key, true));
    row.addEventListener("dblclick", () => this.toggle(slot.key));
    twist.addEventListener("click", (event) => { event.stopPropagation(); this.toggle(slot.key); });
    this.list.append(row);
    return slot;
  }

  show(slot, key, at) {
    const data = this.rows.get(key);
    const flat = this.sort !== "tree";
    const below = !flat && this.below.get(key);
    const folded = this.folded.has(key) && !this.search && !this.busyOnly;
    const mark = `${flat}|${below ? folded : ""}|${key === this.selected}`;
    slot.row.hidden = false;
    if (slot.at !== at) {
      slot.row.style.transform = `translateY(${at * HEIGHT}px)`;
      slot.at = at;
    }
    if (slot.key === key && slot.drawn === data && slot.mark === mark) return;
    slot.key = key;
    slot.drawn = data;
    slot.mark = mark;
    const { row } = slot;
    row.dataset.kind = data[KIND];
    row.setAttribute("aria-selected", key === this.selected);
    row.setAttribute("aria-level", data[DEPTH] + 1);
    if (below) row.setAttribute("aria-expanded", !folded);
    else row.removeAttribute("aria-expanded");
    slot.place.style.paddingLeft = `${flat ? 8 : 8 + data[DEPTH] * 16}px`;
    setText(slot.twist, below ? (folded ? "▶" : "▼") : "");
    setText(slot.name, short(data[ID]));
    row.title = [data[ID], data[MODULE]].filter(Boolean).map(visible).join("\n");
    setText(slot.says, says(data[FACTS], data[ID]));
    slot.state.dataset.state = data[STATE];
    setText(slot.state, data[KIND] === "more" ? "" : data[STATE]);
    number(slot.numbers[0], data[RATE], 1000);
    number(slot.numbers[1], data[MAILBOX], 50);
    number(slot.numbers[2], data[RESTARTS], 3);
    setText(slot.pid, data[PID] === null ? "" : String(data[PID]));
  }

  // Choosing and folding.

  choose(key, quiet) {
    if (key === null || key === undefined) return;
    this.selected = key;
    this.select(key, this.rows.get(key));
    if (!quiet) this.reveal(key);
    this.later();
  }

  find(key) {
    if (!this.rows.has(key)) return false;
    for (let up = this.parents.get(key); up !== undefined; up = this.parents.get(up)) this.folded.delete(up);
    this.arrange();
    this.choose(key);
    return true;
  }

  firstMatch() {
    if (this.stale) this.arrange();
    const wanted = this.matching();
    return wanted ? this.shown.find((key) => wanted.has(key)) : this.shown[0];
  }

  reveal(key) {
    const at = this.shown.indexOf(key);
    if (at < 0) return;
    const { list } = this;
    if (at * HEIGHT < list.scrollTop) list.scrollTop = at * HEIGHT;
    else if ((at + 1) * HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = (at + 1) * HEIGHT - list.clientHeight;
  }

  toggle(key, fold = !this.folded.has(key)) {
    if (!this.below.get(key)) return;
    if (fold) this.folded.add(key);
    else this.folded.delete(key);
    this.again();
  }

  foldAll(fold) {
    this.folded = new Set(fold ? [...this.below.keys()].filter((key) => this.rows.get(key)[DEPTH] >= 1) : []);
    this.again();
  }

  key(event) {
    const at = this.shown.indexOf(this.selected);
    const page = Math.max(1, Math.floor(this.list.clientHeight / HEIGHT) - 1);
    const to = (index) => this.choose(this.shown[Math.max(0, Math.min(this.shown.length - 1, index))]);
    const key = this.selected;
    const moves = {
      ArrowDown: () => to(at + 1), ArrowUp: () => to(at < 0 ? 0 : at - 1), PageDown: () => to(at + page), PageUp: () => to(at - page),
      Home: () => to(0), End: () => to(this.shown.length - 1),
      ArrowRight: () => (this.folded.has(key) ? this.toggle(key, false) : to(at + 1)),
      ArrowLeft: () => (this.below.get(key) && !this.folded.has(key) ? this.toggle(key, true) : this.choose(this.parents.get(key))),
      " ": () => this.toggle(key),
      Enter: () => byId("details").querySelector("button")?.focus(),
    };
    if (moves[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      if (this.shown.length) moves[event.key]();
    }
  }
}

// Session ids differ at their end; the whole id is in the title and in the details.
const short = (id) => id.replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-([0-9a-f]{12})/g, "…$1");

function says(facts, id) {
  const own = id.startsWith("tool_task");
  const first = FIRST_FACTS.filter((name) => name in facts && !(own && name === "phase") && !id.includes(facts[name]));
  const rest = Object.keys(facts).filter((name) => !FIRST_FACTS.includes(name));
  const parts = [...first, ...rest].map((name) => {
    if (name === "phase") return PHASES[facts.phase] ?? facts.phase;
    if (name === "tool" && "phase" in facts) return "";
    if (name === "tokens") return `${facts.tokens} tokens`;
    return ALONE.includes(name) ? facts[name] : `${name} ${short(facts[name])}`;
  });
  if ("phase" in facts && facts.tool && facts.phase !== "child" && !own) parts[0] = `${parts[0]} ${facts.tool}`.trim();
  return parts.filter(Boolean).join(" · ");
}

function number(element, value, much) {
  setText(element, value ? value.toLocaleString("en") : "–");
  element.className = `c-num${value >= much ? " much" : value ? " some" : ""}`;
}
