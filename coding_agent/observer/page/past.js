// Restarts, crashes and other things worth knowing, newest first.
import { byId, clock, empty, fill, h, setText, soon } from "./dom.js";

const MOST = 500;
const BAD = new Set(["crash", "gave up", "start error", "zombie", "orphan thread", "orphan tool", "loop held", "breaker opened"]);

export class Past {
  constructor(place) {
    this.place = place;
    this.items = [];
    this.later = soon(() => this.draw());
    this.later();
  }

  all(items) {
    this.items = items.slice();
    this.later();
  }

  take(item) {
    this.items.push(item);
    if (this.items.length > MOST) this.items.shift();
    this.later();
  }

  draw() {
    setText(byId("past-count"), this.items.length ? String(this.items.length) : "");
    if (!this.place.offsetParent) return;
    if (!this.items.length) {
      fill(this.place, empty("✓", "Nothing has gone wrong", "Restarts, crashes, held loops and breakers are listed here as they happen."));
      return;
    }
    const rows = this.items.slice().reverse().map((item) =>
      h("tr", {}, h("td", { class: "time" }, clock(item.at)), h("td", { class: "kind" }, h("span", { class: `tag${BAD.has(item.kind) ? " bad" : ""}` }, item.kind)), h("td", { class: "mono" }, words(item))));
    const scroll = this.place.scrollTop;
    fill(this.place, h("table", {}, h("thead", {}, h("tr", {}, ["time", "what", "details"].map((name) => h("th", {}, name)))), h("tbody", {}, rows)));
    this.place.scrollTop = scroll;
  }
}

function words(item) {
  const parts = [];
  if (item.id) parts.push(item.id);
  if (item.pid) parts.push(item.pid);
  if (item.holder) parts.push(item.holder);
  if (item.tool_name) parts.push(item.tool_name);
  if (item.provider) parts.push(item.provider);
  if (item.supervisor) parts.push(`under ${item.supervisor}`);
  if (item.category) parts.push(item.category);
  if (item.reason) parts.push(item.reason);
  if (item.restarts) parts.push(`restart ${item.restarts}`);
  if (item.held_s) parts.push(`${item.held_s.toFixed(2)} s`);
  if (item.delay_ms) parts.push(`after ${item.delay_ms} ms`);
  return parts.join(" · ");
}
