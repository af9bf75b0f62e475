// The page: three views of one feed.
import { Charts } from "./charts.js";
import { Details } from "./details.js";
import { byId, setText } from "./dom.js";
import { follow, takeToken, useToken } from "./feed.js";
import { Past } from "./past.js";
import { Runs } from "./runs.js";
import { Tree } from "./tree.js";
import { toast } from "./actions.js";

const charts = new Charts(byId("charts"));
const details = new Details(byId("details"), (pid) => tree.find(pid) || toast(`process ${pid} is not in the tree any more`, true));
const tree = new Tree(byId("tree"), (key, row) => details.show(key, row));
const runs = new Runs(byId("runs"), byId("run"));
const past = new Past(byId("past"));

const TAKE = {
  hello: (value) => {
    setText(byId("host"), `host ${value.os_pid}`);
    runs.skew = value.now - Date.now();
    charts.all(value.figures);
    hold(value.held);
  },
  held: (value) => hold(value),
  tree: (value) => tree.whole(value.order),
  delta: (value) => tree.change(value),
  figures: (value) => charts.add(value),
  steps: (value) => runs.all(value),
  step: (value) => runs.take(value),
  forget: (value) => runs.forget(value),
  past: (value) => past.all(value),
  history: (value) => past.take(value),
};

// Views.

const VIEWS = ["tree", "runs", "past"];

function open(name, focus = false) {
  for (const view of VIEWS) {
    const tab = byId(`tab-${view}`);
    tab.setAttribute("aria-selected", view === name);
    tab.tabIndex = view === name ? 0 : -1;
    byId(`view-${view}`).hidden = view !== name;
  }
  if (focus) byId(`tab-${name}`).focus();
  ({ tree, runs, past })[name].later();
}

for (const view of VIEWS) byId(`tab-${view}`).addEventListener("click", () => open(view));
document.querySelector(".tabs").addEventListener("keydown", (event) => {
  const at = VIEWS.findIndex((view) => byId(`tab-${view}`).getAttribute("aria-selected") === "true");
  if (event.key === "ArrowRight") open(VIEWS[(at + 1) % 3], true);
  if (event.key === "ArrowLeft") open(VIEWS[(at + 2) % 3], true);
});

// The tree's bar.

byId("search").addEventListener("input", (event) => { tree.search = event.target.value; tree.list.scrollTop = 0; tree.again(); });
byId("search").addEventListener("keydown", (event) => {
  if (event.key === "Escape") { event.target.value = ""; tree.search = ""; tree.again(); byId("tree").focus(); }
  if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); byId("tree").focus(); const first = tree.firstMatch(); if (first !== undefined) tree.choose(first); }
});
byId("order").addEventListener("change", (event) => { tree.sort = event.target.value; tree.list.scrollTop = 0; tree.again(); });
byId("only-busy").addEventListener("click", (event) => {
  tree.busyOnly = !tree.busyOnly;
  event.target.setAttribute("aria-pressed", tree.busyOnly);
  tree.again();
});
byId("fold").addEventListener("click", () => tree.foldAll(true));
byId("unfold").addEventListener("click", () => tree.foldAll(false));

// Keys and colours.

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "/") { event.preventDefault(); open("tree"); byId("search").focus(); }
  if (event.key === "t") turnTheme();
  if (["1", "2", "3"].includes(event.key)) open(VIEWS[Number(event.key) - 1], true);
});

const THEMES = ["system", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");

function paint() {
  const theme = localStorage.getItem("lemon.theme") || "system";
  document.documentElement.dataset.theme = theme === "system" ? (dark.matches ? "dark" : "light") : theme;
  byId("theme").setAttribute("aria-label", `Colour theme: ${theme}`);
}

function turnTheme() {
  const theme = localStorage.getItem("lemon.theme") || "system";
  localStorage.setItem("lemon.theme", THEMES[(THEMES.indexOf(theme) + 1) % 3]);
  paint();
}

byId("theme").addEventListener("click", turnTheme);
dark.addEventListener("change", paint);
paint();

// The line. The page is answered by a thread of its own, also while somebody holds the host's loop up: it says who does.
// When nothing is heard at all, whatever holds the whole program, the page says that.

const SILENT_MS = 8000;
let heard = 0;
let silent = false;
let held = null;

function hold(value) {
  const was = held;
  held = value && { ...value, since: value.since - runs.skew };
  if (held) showHeld();
  else if (was) state("on", "live");
}

function showHeld() {
  byId("line").dataset.state = "again";
  setText(byId("line"), `loop held for ${Math.max(0, Math.round((Date.now() - held.since) / 1000))} s by ${held.holder}`);
  byId("line").title = held.at;
}

setInterval(() => {
  const open = document.body.dataset.line === "on";
  silent = open && performance.now() - heard > SILENT_MS;
  if (silent) {
    byId("line").dataset.state = "again";
    setText(byId("line"), `nothing heard for ${Math.round((performance.now() - heard) / 1000)} s`);
  } else if (open && held) showHeld();
}, 1000);

function state(word, text) {
  if (word === "on") heard = performance.now();
  byId("line").dataset.state = word;
  byId("line").title = "";
  if (word !== "on") held = null;
  setText(byId("line"), text);
  document.body.dataset.line = word;
  if (word === "no") gate();
}

function gate() {
  const dialog = byId("gate");
  dialog.onclose = () => { useToken(byId("gate-token").value); begin(); };
  dialog.showModal();
}

function begin() {
  follow((name, value) => {
    heard = performance.now();
    if (silent) state("on", "live");
    silent = false;
    TAKE[name]?.(value);
  }, state);
}

if (takeToken()) begin();
else state("no", "no token");
