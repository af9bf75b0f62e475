// The line to the host: server-sent events over fetch, because the token belongs in a header, not in an address.

const KEY = "lemon.token";
let token = "";

export function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(KEY, given);
    history.replaceState(null, "", location.pathname);
  }
  token = given || sessionStorage.getItem(KEY) || "";
  return token !== "";
}

export function useToken(given) {
  token = given.trim();
  sessionStorage.setItem(KEY, token);
}

const headers = () => ({ Authorization: `Bearer ${token}` });

export class Refused extends Error {}

async function answered(response) {
  if (response.status === 401) throw new Refused("the token is missing or wrong");
  const value = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(value.error || `the host answered ${response.status}`), { status: response.status });
  return value;
}

export async function ask(path) {
  return answered(await fetch(path, { headers: headers(), cache: "no-store" }));
}

export async function act(request) {
  const head = { ...headers(), "Content-Type": "application/json" };
  return answered(await fetch("api/act", { method: "POST", headers: head, body: JSON.stringify(request) }));
}

// Calls take(name, value) for every event, for ever; says how the line stands through state(word, text).
export async function follow(take, state) {
  let pause = 500;
  for (;;) {
    try {
      const response = await fetch("api/events", { headers: headers(), cache: "no-store" });
      if (response.status === 401) throw new Refused("");
      if (!response.ok) throw new Error(`the host answered ${response.status}`);
      pause = 500;
      state("on", "live");
      await read(response.body.getReader(), take);
      throw new Error("the line was closed");
    } catch (error) {
      if (error instanceof Refused) {
        state("no", "token refused");
        return;
      }
      state("again", "reconnecting");
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(5000, pause * 1.7);
    }
  }
}

async function read(reader, take) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    let end;
    while ((end = rest.indexOf("\n\n")) >= 0) {
      const block = rest.slice(0, end);
      rest = rest.slice(end + 2);
      let name = "message";
      let data = "";
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) name = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data) take(name, JSON.parse(data));
    }
  }
}
