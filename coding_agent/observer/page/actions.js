// Nothing is done without a question before it.
import { byId, setText } from "./dom.js";
import { act } from "./feed.js";

let hideLater;

export function toast(text, bad = false) {
  const place = byId("toast");
  setText(place, text);
  place.className = bad ? "toast bad" : "toast";
  place.hidden = false;
  clearTimeout(hideLater);
  hideLater = setTimeout(() => { place.hidden = true; }, bad ? 8000 : 4000);
}

// Ask, and when the answer is yes do it and say what came of it. With `input` the request takes a text along.
export function offer(request, title, text, label, input = false) {
  const dialog = byId("confirm");
  const field = byId("confirm-input");
  setText(byId("confirm-title"), title);
  setText(byId("confirm-text"), text);
  setText(byId("confirm-yes"), label);
  field.hidden = !input;
  field.value = "";
  dialog.returnValue = "no";
  dialog.onclose = async () => {
    if (dialog.returnValue !== "yes") return;
    try {
      const done = await act(input ? { ...request, text: field.value } : request);
      toast(done.text);
    } catch (error) {
      toast(error.message, true);
    }
  };
  dialog.showModal();
  (input ? field : byId("confirm-no")).focus();
}
