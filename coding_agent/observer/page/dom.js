// Elements without markup: every text becomes a text node, so no name from the tree is ever read as HTML.

export const byId = (id) => document.getElementById(id);

export function h(tag, given = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || (value === false && !name.startsWith("aria-"))) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(made.dataset, value);
    else made.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : String(value));
  }
  put(made, inside);
  return made;
}

export function put(parent, inside) {
  for (const one of inside.flat(Infinity)) {
    if (one === null || one === undefined || one === false) continue;
    parent.append(one instanceof Node ? one : document.createTextNode(visible(String(one))));
  }
  return parent;
}

export function fill(parent, ...inside) {
  parent.replaceChildren();
  return put(parent, inside);
}

// Has `work` done with the next frame, however often that is asked for until then.
export function soon(work) {
  let pending = false;
  return () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      work();
    });
  };
}

// Characters that would turn the direction of text, or show nothing at all, are written out.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]|[\u{e0000}-\u{e007f}]/gu;

export function visible(text) {
  return text.replace(HIDDEN, (char) => `\\u{${char.codePointAt(0).toString(16)}}`);
}

export function setText(element, text) {
  const shown = visible(text);
  if (element.textContent !== shown) element.textContent = shown;
}

export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(2)} s`;
  if (s < 60) return `${s.toFixed(1)} s`;
  const minutes = Math.floor(s / 60);
  return minutes < 60 ? `${minutes} min ${Math.round(s % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

export function empty(sign, title, ...more) {
  return h("div", { class: "empty" }, h("div", { class: "big", "aria-hidden": "true" }, sign), h("strong", {}, title), more);
}
