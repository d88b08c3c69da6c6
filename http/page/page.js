
// The page at `/`: what it knows of the node, how it asks, and what it shows where. The views are
// in views.js. All texts of a node go into the page as text, never as markup.

const S = { status: null, you: null, events: [], lost: null, heard: 0, token: readToken(),
  rates: new Map(), holders: [], view: null, clean: [] };
const VIEWS = [["cluster", "Cluster"], ["tags", "Tags"], ["workers", "Workers"],
  ["decode", "Decode"], ["events", "Events"]];
const EVENTS_KEPT = 512;
const RATES_KEPT = 60;
const element = (id) => document.getElementById(id);

// --- asking ---

function readToken() {
  try { return sessionStorage.getItem("leafd-token") || ""; } catch { return ""; }
}

function keepToken(token) {
  S.token = token;
  try {
    if (token) sessionStorage.setItem("leafd-token", token);
    else sessionStorage.removeItem("leafd-token");
  } catch { /* it lasts as long as the page, then */ }
}

function headers(more) {
  return S.token ? { ...more, Authorization: `Bearer ${S.token}` } : { ...more };
}

class Refused extends Error {
  constructor(status, body) {
    super(body && body.message ? body.message : `the node answered ${status}`);
    this.status = status;
    this.code = body ? body.code : "";
  }
}

async function ask(method, path, body) {
  const options = { method, headers: headers(), cache: "no-store", redirect: "error" };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const response = await fetch(path, options);
  const text = await response.text();
  let answer = null;
  try { answer = text ? JSON.parse(text) : null; } catch { /* no JSON: an error below */ }
  if (!response.ok) {
    if (response.status === 401) askToken(S.token !== "");
    throw new Refused(response.status, answer);
  }
  return answer;
}

const enc = encodeURIComponent;
const may = (role) => !S.you || S.you.roles.includes(role);

function say(text) {
  element("said").textContent = text;
}

// --- the token ---

function askToken(wrong) {
  if (element("token-dialog")) return;
  const field = make("input", { id: "token", type: "password", autocomplete: "off",
    spellcheck: "false", size: "50" });
  const box = dialog("token-dialog", "This node asks for a token",
    make("p", { class: "soft" }, "It is kept in this tab until you close it, and sent to this " +
      "node alone. The role read shows everything; tags can be changed with the role tags."),
    wrong ? make("p", { class: "wrong", role: "alert" }, "The node does not know the token.") : null,
    make("form", { onsubmit: (event) => {
      event.preventDefault();
      keepToken(field.value.trim());
      box.close();
      begin();
    } },
    make("div", { class: "fields" }, make("div", {},
      make("label", { for: "token" }, "Token"), field),
    make("button", { class: "main", type: "submit" }, "Continue"))));
}

function dialog(id, title, ...content) {
  const box = make("dialog", { id, "aria-labelledby": id + "-title" },
    make("h2", { id: id + "-title" }, title), ...content);
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  return box;
}

// --- live ---

let reading = null;

async function watch() {
  if (reading) reading.abort();
  const mine = new AbortController();
  reading = mine;
  try {
    const response = await fetch("/api/live", { headers: headers(), cache: "no-store",
      signal: mine.signal });
    if (response.status === 401) { askToken(S.token !== ""); return; }
    if (response.status === 503) { await poll(mine); return; }
    if (!response.ok) throw new Refused(response.status, null);
    await read(response.body.getReader(), mine);
  } catch { /* it is begun again below */ }
  if (reading === mine) {
    lost();
    setTimeout(() => { if (reading === mine) refresh().then(watch, watch); }, 1000);
  }
}

async function read(reader, mine) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const quiet = setTimeout(() => mine.abort(), 8000);
    const { done, value } = await reader.read().finally(() => clearTimeout(quiet));
    if (done) return;
    text += decoder.decode(value, { stream: true });
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      take(text.slice(0, end));
      text = text.slice(end + 2);
    }
  }
}

function take(block) {
  const fields = {};
  for (const line of block.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
  }
  if (fields.event === "status") heard(JSON.parse(fields.data));
  if (fields.event === "events") takeEvents(JSON.parse(fields.data));
}

// There are viewers enough: look now and then.
async function poll(mine) {
  while (reading === mine) {
    await refresh();
    await new Promise((done) => setTimeout(done, 3000));
  }
}

async function takeEvents(page) {
  const last = S.events.length ? S.events[S.events.length - 1].number : 0;
  const fresh = page.events.filter((event) => event.number > last);
  if (fresh.length && last && fresh[0].number > last + 1) {
    await fetchEvents();
    return;
  }
  S.events.push(...fresh);
  S.events.splice(0, S.events.length - EVENTS_KEPT);
  for (const event of fresh) say(event.text);
  update("events");
}

async function fetchEvents() {
  S.events = (await ask("GET", `/api/events?limit=${EVENTS_KEPT}`)).events;
  update("events");
}

function heard(status) {
  S.status = status;
  S.heard = Date.now();
  S.lost = null;
  document.body.classList.remove("stale");
  showHead();
  showBanners();
  update("status");
}

function lost() {
  S.lost = S.lost || Date.now();
  document.body.classList.add("stale");
  showHead();
}

async function refresh() {
  const status = await ask("GET", "/api/status");
  S.you = status.you;
  heard(status);
  await fetchEvents();
}

// --- head and banners ---

function clockOf(time) {
  return new Date(time).toLocaleTimeString("en-GB");
}

function showHead() {
  const s = S.status;
  const pulse = element("pulse");
  pulse.className = "pulse" + (S.lost ? " lost" : "");
  const words = S.lost ? `no answer since ${clockOf(S.heard || S.lost)}: what you see is from then`
    : "live";
  pulse.replaceChildren(make("i", { class: "beat" }), words);
  if (!s) return;
  element("where").textContent = `node ${s.node_id} of ${s.cluster_id} · leafd ${s.version}`;
  document.title = (s.alarms.length ? `(${s.alarms.length}) ` : "") + `leafd ${s.cluster_id}`;
  element("who").textContent = S.you && S.token ? S.you.name : "";
}

function showBanners() {
  const box = element("banners");
  const text = JSON.stringify(S.status.alarms);
  if (box.dataset.shown === text) return;
  const before = box.dataset.shown || "[]";
  box.dataset.shown = text;
  box.replaceChildren(...S.status.alarms.map((alarm) => make("section",
    { class: `card banner ${alarm.severity}`, "aria-label": `alarm ${alarm.name}` },
    make("div", { class: "sign", "aria-hidden": "true" }, alarm.severity === "critical" ? "✗" : "!"),
    make("div", {}, make("b", {}, alarm.text),
      make("p", {}, alarm.do),
      make("p", { class: "soft small" }, `${alarm.name} · ${alarm.severity} · since ` +
        clockOf(alarm.since))))));
  if (text !== before && S.status.alarms.length) {
    say(`${S.status.alarms.length} alarms: ` + S.status.alarms.map((a) => a.text).join("; "));
  }
}

function makeHead() {
  const leaf = draw("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" });
  leaf.append(draw("path", { d: "M14 2C7 2 2 5 2 10c0 2 1 4 3 4 6 0 9-5 9-12z" }));
  element("head").replaceChildren(
    make("div", { class: "line" },
      make("div", { class: "brand" }, leaf, make("h1", {}, "leafd")),
      make("span", { id: "where", class: "soft" }, ""),
      make("span", { class: "space" }),
      make("span", { id: "pulse", class: "pulse" }, "…"),
      make("span", { id: "who", class: "soft small" }, ""),
      make("button", { type: "button", onclick: theme, "aria-label": "light or dark" }, "◐")),
    make("nav", { "aria-label": "views" }, ...VIEWS.map(([name, text]) =>
      make("a", { href: `#${name}`, id: `nav-${name}` }, text))));
}

// --- views ---

function update(what) {
  if (S.view && S.view.update) S.view.update(what);
}

// Called again and again while the present view is shown.
function every(ms, work) {
  let busy = false;
  const turn = async () => {
    if (busy || document.hidden || S.lost) return;
    busy = true;
    try { await work(); } catch { /* the head says that nobody answers */ }
    busy = false;
  };
  const timer = setInterval(turn, ms);
  S.clean.push(() => clearInterval(timer));
  return turn();
}

function route() {
  const first = { "/cache": "#tags?in-use", "/db": "#tags" }[location.pathname];
  const hash = location.hash || first || "#cluster";
  const [name, ...rest] = hash.slice(1).split("/");
  const [word, option] = name.split("?");
  const known = VIEWS.some(([view]) => view === word) ? word : "cluster";
  for (const work of S.clean.splice(0)) work();
  for (const [view] of VIEWS) {
    const link = element(`nav-${view}`);
    if (view === known) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const box = make("div");
  element("view").replaceChildren(box);
  S.view = show[known](box, rest.length ? decodeURIComponent(rest.join("/")) : "", option);
  update("status");
  update("events");
}

function begin() {
  refresh().then(() => { route(); watch(); }, () => {
    if (!element("token-dialog")) { lost(); setTimeout(begin, 2000); }
  });
}

function main() {
  document.documentElement.dataset.theme =
    matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  makeHead();
  addEventListener("hashchange", () => { route(); element("view").focus(); });
  addEventListener("resize", () => update("status"));
  addEventListener("DOMContentLoaded", begin);
}
