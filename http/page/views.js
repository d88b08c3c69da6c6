
// The views of the page at `/`. Each is a function that fills a box and returns what updates it.

const PAGE = 25;
const MAX_ID = 9223372036854775807n;
const show = {};

const big = (value) => BigInt(value).toLocaleString("en-US");
const bytes = (value) => value === null || value === undefined ? "–"
  : value >= 2 ** 30 ? `${(value / 2 ** 30).toFixed(1)} GiB`
    : value >= 2 ** 20 ? `${(value / 2 ** 20).toFixed(value >= 1e7 ? 0 : 1)} MiB`
      : `${Math.ceil(value / 1024)} KiB`;
const plural = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;

function lasting(seconds) {
  if (!isFinite(seconds)) return "–";
  if (seconds < 1) return "less than 1 s";
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  const days = seconds / 86400;
  if (days < 730) return `${Math.floor(days)} days`;
  return days / 365 > 9999 ? "over 9,999 years" : `${number(days / 365.25)} years`;
}

function heading(text, words) {
  return [make("h2", {}, text), words ? make("p", { class: "soft small" }, words) : null];
}

function tableOf(caption, heads, rows) {
  const top = heads.map(([text, n]) => make("th", { scope: "col", ...(n ? { class: "n" } : {}) },
    text));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell, at) => {
    const td = cell instanceof Element && cell.tagName === "TD" ? cell
      : make("td", heads[at][1] ? { class: "n" } : {}, cell);
    td.dataset.head = heads[at][0]; // shown where the table becomes cards
    return td;
  })));
  return make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("caption", { class: "quiet" }, caption),
      make("thead", {}, make("tr", {}, ...top)), make("tbody", {}, ...body)));
}

// --- cluster ---

const roleOf = (m, s) => !m.reachable ? "cannot be reached"
  : m.id === s.leader_id ? "leads" : m.role === "standby" ? "standby" : "follows";
const lagOf = (m) => m.lag === null ? "lag not known" : m.lag === 0 ? "up to date"
  : `${plural(m.lag, "entry").replace("entrys", "entries")} behind`;
const offsetOf = (m, s) => m.id === s.node_id ? "its own clock"
  : m.clock_offset_ms === null ? "clock not known"
    : `clock ${m.clock_offset_ms > 0 ? "+" : m.clock_offset_ms < 0 ? "−" : "±"}` +
      `${number(Math.abs(m.clock_offset_ms))} ms`;
const usOf = (us) => us === null ? "–" : `${(us / 1000).toFixed(us < 10000 ? 2 : 0)} ms`;
const tripOf = (m) => m.round_trip_us === null ? "" : usOf(m.round_trip_us);

function places(count, wide) {
  if (wide < 620) {
    return { height: count * 118, at: (i) => [wide / 2 + 14, 56 + i * 118] };
  }
  if (count <= 2) {
    return { height: 130, at: (i) => [wide * (count === 1 ? 0.5 : 0.25 + i * 0.5), 65] };
  }
  const height = count === 3 ? 280 : 420;
  const ups = [...Array(count).keys()].map((i) =>
    Math.sin(-Math.PI / 2 + (i * 2 * Math.PI) / count));
  const low = Math.max(...ups);
  return { height, at: (i) => {
    const angle = -Math.PI / 2 + (i * 2 * Math.PI) / count;
    return [wide / 2 + Math.cos(angle) * (wide / 2 - 130) * 0.8,
      56 + ((ups[i] + 1) / (low + 1)) * (height - 112)];
  } };
}

function nodeBox(svg, m, s, [x, y]) {
  const gone = !m.reachable;
  const leads = m.id === s.leader_id;
  const left = x - 108;
  svg.append(draw("rect", { x: left, y: y - 52, width: 216, height: 104, rx: 11,
    class: "box" + (gone ? " gone" : leads ? " leads" : "") }));
  svg.append(draw("text", { x: left + 14, y: y - 26, class: "name" }, `node ${m.id}`));
  svg.append(draw("text", { x: left + 202, y: y - 26, "text-anchor": "end",
    class: "role" + (gone ? " bad" : leads ? " on" : "") }, gone ? "no link" : roleOf(m, s)));
  [lagOf(m), offsetOf(m, s) + (m.version ? ` · leafd ${m.version}` : ""),
    m.id === s.node_id ? "you look from here" : m.peer_address.slice(0, 30)].forEach((text, i) =>
    svg.append(draw("text", { x: left + 14, y: y - 2 + i * 19 }, text)));
}

function linkLine(svg, from, to, m, narrow) {
  const gone = !m.reachable;
  const [x1, y1] = from;
  const [x2, y2] = to;
  if (narrow) {
    svg.append(draw("path", { d: `M${x1 - 108} ${y1}H10V${y2}H${x2 - 108}`, fill: "none",
      class: "link" + (gone ? " gone" : "") }));
    return;
  }
  svg.append(draw("line", { x1, y1, x2, y2, class: "link" + (gone ? " gone" : "") }));
  const text = gone ? "" : tripOf(m);
  if (!text) return;
  const x = (x1 + x2) / 2;
  const y = (y1 + y2) / 2;
  svg.append(draw("rect", { x: x - 34, y: y - 11, width: 68, height: 22, rx: 6, class: "plate" }));
  svg.append(draw("text", { x, y: y + 4, "text-anchor": "middle" }, text));
}

function picture(box, s) {
  const wide = Math.max(280, box.clientWidth);
  const placed = places(s.members.length, wide);
  const narrow = wide < 620;
  const svg = draw("svg", { width: wide, height: placed.height, class: "picture", role: "img",
    viewBox: `0 0 ${wide} ${placed.height}`, "aria-label": s.members.map((m) =>
      `node ${m.id} ${roleOf(m, s)}, ${lagOf(m)}`).join("; ") });
  const own = s.members.findIndex((m) => m.id === s.node_id);
  if (!narrow) {
    s.members.forEach((a, i) => s.members.forEach((b, k) => {
      if (k > i && i !== own && k !== own && a.reachable && b.reachable) {
        const [x1, y1] = placed.at(i);
        const [x2, y2] = placed.at(k);
        svg.append(draw("line", { x1, y1, x2, y2, class: "link others" }));
      }
    }));
  }
  s.members.forEach((m, i) => {
    if (own >= 0 && i !== own) linkLine(svg, placed.at(own), placed.at(i), m, narrow);
  });
  s.members.forEach((m, i) => nodeBox(svg, m, s, placed.at(i)));
  box.replaceChildren(svg);
}

function quorumCard(q) {
  const bad = q.reachable < q.needed;
  return make("div", { class: "card verdict" +
    (bad ? " bad" : q.survives_next_failure ? "" : " warn") },
    make("div", { class: "mark", "aria-hidden": "true" },
      bad ? "✗" : q.survives_next_failure ? "✓" : "!"),
    make("div", {}, make("strong", {}, bad ? "No majority"
      : q.survives_next_failure ? "The next failure costs nothing"
        : "The next failure stops all changes"),
    make("p", { class: "soft" }, q.text)));
}

function clusterTiles(s) {
  const bad = (node, wrong) => { if (wrong) node.classList.add("bad"); return node; };
  const level = s.level.number;
  return make("div", { class: "tiles" },
    bad(tile(s.leader_id ? `node ${s.leader_id}` : "none", "leads"), !s.leader_id),
    tile(number(s.term), "term"),
    tile(number(s.commit_index), "entries committed"),
    tile(String(level), "level of the cluster"),
    tile(bytes(s.memory.resident_bytes ?? s.memory.state_bytes),
      s.memory.resident_bytes === null ? "tags and keys in memory" : "memory of this node"),
    tile(bytes(s.disk.data_bytes), s.disk.free_bytes === null ? "data on disk"
      : `data on disk, ${bytes(s.disk.free_bytes)} free`),
    tile(lasting(s.uptime_s), "this node is up"));
}

// A node's work goes to the others, or it takes work again.
function drainButton(m, said) {
  const verb = m.state === "drained" ? "resume" : "drain";
  const go = async () => {
    if (!window.confirm(verb === "drain"
      ? `Node ${m.id} is to take no new work until it is resumed?`
      : `Node ${m.id} is to take work again?`)) return;
    try {
      said.replaceChildren(make("p", { class: "fine" },
        (await ask("POST", `/api/nodes/${m.id}/${verb}`)).message));
    } catch (error) {
      said.replaceChildren(make("p", { class: "wrong" }, `Refused: ${error.message}`));
    }
  };
  return make("button", { type: "button", onclick: go }, `${verb} node ${m.id}`);
}

// Clients that no node serves for a time, and the end of it.
function cutsCard(cuts, said) {
  const restore = (who) => async () => {
    try {
      await ask("DELETE", `/api/clients/cuts/${enc(who)}`);
      said.replaceChildren(make("p", { class: "fine" }, `${who} is served again`));
    } catch (error) {
      said.replaceChildren(make("p", { class: "wrong" }, `Refused: ${error.message}`));
    }
  };
  return make("div", { class: "card" }, ...heading("Clients that are cut"),
    tableOf("clients that are cut", [["client"], ["until"], ["by"], ["reason"], ["cut"]],
      cuts.map((c) => [c.who, c.until, c.by, c.reason ?? "–", make("button",
        { type: "button", onclick: restore(c.who) }, `restore ${c.who}`)])), said);
}

function membersTable(s, said) {
  return tableOf("members of the cluster", [["node"], ["role"], ["is"], ["zone"], ["state"],
    ["weight", true], ["lag", true], ["round trip", true], ["clock", true], ["heard", true],
    ["version"], ["address"], ...(may("admin") ? [["work"]] : [])],
  s.members.map((m) => [`node ${m.id}`, m.role, roleOf(m, s), m.zone ?? "–",
    m.state.replace("_", " "), String(m.weight),
    m.lag === null ? "–" : number(m.lag), tripOf(m) || "–",
    m.id === s.node_id ? "–" : m.clock_offset_ms === null ? "–" : `${m.clock_offset_ms} ms`,
    m.last_heard_ms === null ? "–" : `${(m.last_heard_ms / 1000).toFixed(1)} s ago`,
    m.version || "–", m.peer_address, ...(may("admin") ? [drainButton(m, said)] : [])]));
}

const zonesTable = (s) => (s.zones ?? []).length === 0 ? [] : [
  tableOf("what an id costs from each zone", [["from zone"], ["a monotonic id", true],
    ["a strict id", true]],
  s.zones.map((z) => [z.zone, usOf(z.monotonic_us), usOf(z.strict_us)]))];

// --- the first commands ---

// As bash and zsh read it back. What is not plain is written by its bytes: the eye sees them all.
const quoted = (text) => /^[\w@%+=:,./-]+$/.test(text) ? text
  : "$'" + Array.from(new TextEncoder().encode(text), (byte) =>
    byte <= 33 || byte > 126 || byte === 39 || byte === 92
      ? "\\" + byte.toString(8).padStart(3, "0") : String.fromCharCode(byte)).join("") + "'";

const inPath = (name) => enc(name).replace(/[!'()*]/g, (sign) =>
  "%" + sign.charCodeAt(0).toString(16).toUpperCase());

// A node that does not know its host is reached where this page was.
function reached(address) {
  const at = address.lastIndexOf(":");
  const host = address.slice(0, at);
  return { host: ["0.0.0.0", "[::]"].includes(host) ? location.hostname : host,
    port: address.slice(at + 1) };
}

const ownPrefix = () => S.you && S.you.prefixes.length ? S.you.prefixes[0] : "";

// What each is for, and its line. tag null: there is none.
function firstCommands(s, tag) {
  const tls = s.certificates.some((certificate) => certificate.what === "http.tls-dir");
  const secret = S.token !== "" || !may("ids");
  const own = s.members.find((m) => m.id === s.node_id);
  const port = location.port || (location.protocol === "https:" ? "443" : "80");
  const here = `${location.protocol}//${location.hostname}:${port}`;
  const name = tag ?? `${ownPrefix()}order`;
  const bearer = secret ? '-H "Authorization: Bearer $TOKEN" ' : "";
  const lines = [];
  if (tag === null) {
    lines.push(["make a tag", `curl -X PUT ${bearer}-H 'Content-Type: application/json' -d '{}' ` +
      quoted(`${here}/api/tags/${inPath(name)}`)]);
  } else if (own && own.http_address) {
    const at = reached(own.http_address);
    lines.push(["take an id", `curl ${bearer}` +
      quoted(`http${tls ? "s" : ""}://${at.host}:${at.port}/api/segment/get/${inPath(name)}`)]);
  }
  if (s.resp_address) {
    const at = reached(s.resp_address);
    lines.push(["take an id as of Redis", (secret ? 'REDISCLI_AUTH="$TOKEN" ' : "") +
      `redis-cli ${tls ? "--tls " : ""}-h ${quoted(at.host.replace(/^\[|\]$/g, ""))} ` +
      `-p ${at.port} INCR ${quoted(name)}`]);
  }
  lines.push(["see the cluster", (secret ? 'LEAFCTL_TOKEN="$TOKEN" ' : "") +
    `leafctl --server ${quoted(here)} status`]);
  return lines;
}

function commandLine([what, line]) {
  const code = make("code", {}, line);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(line);
      say("copied");
    } catch { // browsers let pages copy only over TLS and from this machine
      getSelection().selectAllChildren(code);
      say("selected: copy it by the keyboard");
    }
  };
  return make("div", { class: "command" }, make("span", { class: "soft small" }, what), code,
    make("button", { type: "button", onclick: copy, "aria-label": `copy: ${what}` }, "copy"));
}

function showCommands(box, s, tag) {
  const lines = firstCommands(s, tag);
  const text = JSON.stringify(lines);
  if (box.dataset.shown === text) return; // else a selection would be lost
  box.dataset.shown = text;
  box.replaceChildren(make("div", { class: "card" }, ...heading("Try it", [
    text.includes("$TOKEN") ? "TOKEN stands for your token." : "",
    text.includes("https:") ? "An authority of your own: --cacert FILE, for leafctl --ca FILE."
      : ""].join(" ").trim()), ...lines.map(commandLine)));
}

show.cluster = (box) => {
  let tag; // undefined: not asked yet
  const first = make("div");
  const quorum = make("div");
  const figure = make("div");
  const tiles = make("div");
  const members = make("div");
  const said = make("div", { role: "status" });
  const cuts = make("div");
  const saidOfCuts = make("div", { role: "status" });
  const recent = make("div");
  const certificates = make("div");
  box.append(quorum, make("div", { class: "card" },
    ...heading("The cluster, as this node sees it", "Green: links of this node, with the time of " +
      "a round trip. Lag counts committed entries that are not on a node's disk."), figure), tiles,
  first,
  make("div", { class: "card" }, ...heading("Members"), members, said), cuts, certificates,
  make("div", { class: "card" }, ...heading("What happened last"), recent));
  const update = (what) => {
    const s = S.status;
    if (what === "events") {
      recent.replaceChildren(eventList(S.events.slice(-6)));
      return;
    }
    quorum.replaceChildren(quorumCard(s.quorum));
    tiles.replaceChildren(clusterTiles(s));
    picture(figure, s);
    if (!members.querySelector("button:active")) { // else the click would be lost
      members.replaceChildren(membersTable(s, said), ...zonesTable(s));
    }
    certificates.replaceChildren(...(s.certificates.length ? [make("div", { class: "card" },
      ...heading("Certificates"), tableOf("certificates", [["what"], ["expires"]],
        s.certificates.map((c) => [c.what, c.expires ? c.expires.slice(0, 10) : "–"])))] : []));
    if (tag !== undefined) showCommands(first, s, tag);
  };
  every(5000, async () => {
    if (!may("admin") || cuts.querySelector("button:active")) return;
    const list = (await ask("GET", "/api/clients/cuts")).cuts;
    cuts.replaceChildren(...(list.length ? [cutsCard(list, saidOfCuts)] : []));
  });
  every(5000, async () => {
    if (tag) return;
    const { tags } = await ask("GET", `/api/tags?prefix=${enc(ownPrefix())}&limit=${PAGE}` +
      "&consistency=local");
    const open = tags.map((row) => row.paused ? "" : row.tag).filter(Boolean);
    tag = open.find((name) => quoted(name) === name) ?? open[0] ?? null;
    showCommands(first, S.status, tag);
  });
  return { update };
};

// --- tags ---

const slotLeft = (slot) =>
  Math.ceil(Number(BigInt(slot.end) - BigInt(slot.next_id)) / (slot.increment || 1));

// Both buffers of a tag on one line: what is used up, what is left, and what comes next.
function buffersBar(segment, tall) {
  const high = tall ? 34 : 16;
  const svg = draw("svg", { height: high, viewBox: `0 0 200 ${high}`, role: "img",
    preserveAspectRatio: "none" });
  const slots = segment ? segment.slots.filter((slot) => slot.size > 0) : [];
  const total = slots.reduce((sum, slot) => sum + slot.size, 0);
  const words = [];
  let x = 0;
  for (const slot of slots) {
    const wide = (200 * slot.size) / total;
    const left = slotLeft(slot);
    const used = wide * (1 - left / slot.size);
    svg.append(draw("rect", { x, y: 1, width: used, height: high - 2, class: "slot" }));
    svg.append(draw("rect", { x: x + used, y: 1, width: wide - used, height: high - 2,
      class: "slot " + (slot.current ? "left" : "next") }));
    svg.append(draw("rect", { x, y: 1, width: wide, height: high - 2, class: "slot frame",
      "vector-effect": "non-scaling-stroke" }));
    words.push(`${slot.current ? "current" : "next"}: ${number(left)} of ${number(slot.size)} left`);
    x += wide;
  }
  if (!slots.length) {
    svg.append(draw("rect", { x: 0, y: 1, width: 200, height: high - 2, class: "slot frame",
      "vector-effect": "non-scaling-stroke", "stroke-dasharray": "3 3" }));
    words.push("nothing in memory");
  }
  svg.setAttribute("aria-label", words.join(", "));
  svg.append(draw("title", {}, words.join(", ")));
  return svg;
}

function sparkline(name, wide, high) {
  const values = S.rates.get(name) || [];
  const svg = draw("svg", { height: high, viewBox: `0 0 ${wide} ${high}`, role: "img",
    preserveAspectRatio: "none", "aria-label": values.length
      ? `${short(values[values.length - 1])} ids a second` : "no rate yet" });
  const top = Math.max(1, ...values);
  const x = (i) => ((i + RATES_KEPT - values.length) / (RATES_KEPT - 1)) * wide;
  const y = (value) => high - 2 - (value / top) * (high - 4);
  if (values.length > 1) {
    const line = values.map((value, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`);
    svg.append(draw("path", { class: "spark-area",
      d: `${line.join("")}L${wide} ${high}L${x(0).toFixed(1)} ${high}Z` }));
    svg.append(draw("path", { class: "spark-line", d: line.join(""),
      "vector-effect": "non-scaling-stroke" }));
  }
  return svg;
}

// What all nodes hold, as GET /api/cluster/segments says it: a map by tags for each node.
function noteHolders(nodes) {
  S.holders = nodes.map((node) => ({ ...node,
    tags: new Map(node.segments.map((segment) => [segment.tag, segment])) }));
  for (const name of new Set(nodes.flatMap((node) => node.segments.map((s) => s.tag)))) {
    const values = S.rates.get(name) || [];
    values.push(rateOf(name));
    if (values.length > RATES_KEPT) values.shift();
    S.rates.set(name, values);
  }
  if (S.rates.size > 2000) S.rates.clear();
}

const segmentsOf = (name) => S.holders.map((node) => node.tags.get(name)).filter(Boolean);
const rateOf = (name) => segmentsOf(name).reduce((sum, s) => sum + s.rate_per_s, 0);
const leftIn = (segment) => segment.slots.reduce((sum, slot) =>
  sum + (slot.size > 0 ? slotLeft(slot) : 0), 0);
const leftOf = (name) => segmentsOf(name).reduce((sum, s) => sum + leftIn(s), 0);
const leftBelow = (tag) =>
  (BigInt(tag.max || MAX_ID) - BigInt(tag.max_id)) / BigInt(tag.increment || 1);
// Until the first node has used up what it holds; of strict and monotonic tags none holds any.
function memoryLasts(name) {
  const busy = segmentsOf(name).filter((segment) => segment.rate_per_s > 0 &&
    segment.state !== "strict" && segment.state !== "monotonic");
  return busy.length ? lasting(Math.min(...busy.map((s) => leftIn(s) / s.rate_per_s))) : "–";
}
const counterLasts = (tag) => rateOf(tag.tag) > 0
  ? lasting(Number(leftBelow(tag)) / rateOf(tag.tag)) : "–";

// Why a node has nothing to show; "" if it has.
const silence = (node) => node.answered ? "" : node.asked ? "no answer" : "cannot be reached";

// A line for each node: its name, and its buffers or why there are none.
function holderBars(tag, tall) {
  const name = tag.tag;
  if (tag.mode === "strict" && !tag.changing) {
    return [make("span", { class: "soft small" }, "none: its ids come from the log")];
  }
  if (tag.mode === "monotonic" && !tag.changing) {
    return [make("span", { class: "soft small" }, "none: its ids come from the leader")];
  }
  return S.holders.map((node) => make("div", { class: "holder" },
    make("span", { class: "soft small" }, `node ${node.node_id}`),
    silence(node) ? make("span", { class: "soft small" }, silence(node))
      : buffersBar(node.tags.get(name), tall)));
}

function modeChip(tag) {
  const rises = tag.mode === "strict" || tag.mode === "monotonic";
  return make("span", { class: "chip " + (rises ? "strict" : "plain") },
    tag.paused ? `${tag.mode}, paused`
      : tag.changing ? `${tag.mode}, changing` : tag.mode || "–");
}

function tagButton(name) {
  return make("button", { type: "button", class: "tag",
    onclick: () => { location.hash = `#tags/${enc(name)}`; } }, name);
}

function tagRow(tag) {
  const name = tag.tag;
  const segments = segmentsOf(name);
  return [tagButton(name), modeChip(tag),
    tag.max_id === undefined ? "–" : big(tag.max_id),
    number(Math.max(0, ...segments.map((segment) => segment.step)) || tag.step || 0),
    make("td", { class: "buffers" }, ...holderBars(tag)),
    make("td", { class: "spark" }, sparkline(name, 120, 18)),
    segments.length ? `${short(rateOf(name))}/s` : "–", memoryLasts(name)];
}

const tagHeads = () => [["tag"], ["mode"], ["max_id", true], ["segment", true],
  ["buffers of each node"], ["ids a second"], ["now", true], ["memory lasts", true]];

// Names as the nodes order them: by their bytes, which in UTF-8 is by their code points.
function byBytes(a, b) {
  const left = [...a], right = [...b];
  const at = left.findIndex((sign, i) => sign !== right[i]);
  return at < 0 ? left.length - right.length
    : right[at] === undefined ? 1 : left[at].codePointAt(0) - right[at].codePointAt(0);
}

// The tags that any node holds.
function tagsInUse() {
  const names = new Map();
  for (const segment of S.holders.flatMap((node) => node.segments)) {
    names.set(segment.tag, segment.state);
  }
  return [...names.keys()].sort(byBytes).map((name) => ({ tag: name, mode: names.get(name) }));
}

show.tags = (box, name, option) => name ? oneTag(box, name) : manyTags(box, option === "in-use");

function manyTags(box, inUse) {
  const v = { prefix: ownPrefix(), stack: [""], inUse, tags: [], next: null, asked: 0 };
  const list = make("div");
  const pages = make("div", { class: "pages" });
  const field = make("input", { id: "prefix", type: "search", value: v.prefix, size: "28",
    placeholder: "begins with …" });
  const choice = make("select", { id: "which" }, make("option", { value: "all" }, "all tags"),
    make("option", { value: "use" }, "in use"));
  choice.value = inUse ? "use" : "all";
  let typing = 0;
  const load = async () => {
    const mine = ++v.asked; // an answer that comes late, to an older question, is dropped
    const query = `?prefix=${enc(v.prefix)}&after=${enc(v.stack[v.stack.length - 1])}` +
      `&limit=${PAGE}`;
    try {
      const held = await ask("GET", `/api/cluster/segments${query}`);
      const answer = v.inUse ? null : await ask("GET", `/api/tags${query}&consistency=local`);
      if (mine !== v.asked) return;
      noteHolders(held.nodes);
      v.tags = answer ? answer.tags : tagsInUse();
      v.next = answer ? answer.next : held.next;
      draw_();
    } catch (error) {
      list.replaceChildren(make("p", { class: "wrong", role: "alert" }, error.message));
    }
  };
  const go = (stack) => { v.stack = stack; load(); };
  const draw_ = () => {
    const focus = document.activeElement && list.contains(document.activeElement)
      ? document.activeElement.textContent : null;
    list.replaceChildren(v.tags.length ? tableOf("tags", tagHeads(),
      v.tags.map((tag) => tagRow(tag)))
      : make("p", { class: "soft" }, v.prefix ? "No tag begins so." : "There are no tags yet."));
    if (focus !== null) {
      for (const button of list.querySelectorAll("button.tag")) {
        if (button.textContent === focus) button.focus();
      }
    }
    first.disabled = v.stack.length === 1;
    more.disabled = v.next === null;
    where.textContent = v.tags.length
      ? `page ${v.stack.length}${v.next === null ? ", the last" : ""}` : "";
  };
  const first = make("button", { type: "button", onclick: () => go(v.stack.slice(0, -1)) },
    "← back");
  const more = make("button", { type: "button", onclick: () => go([...v.stack, v.next]) },
    "more →");
  const where = make("span", { class: "soft small" });
  field.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => { v.prefix = field.value; go([""]); }, 200);
  });
  choice.addEventListener("change", () => { v.inUse = choice.value === "use"; go([""]); });
  pages.append(first, more, where);
  box.append(make("div", { class: "card" },
    ...heading("Tags", "Each node has buffers of its own for each tag that it hands out. " +
      "Names are in the order of their bytes."),
    make("div", { class: "fields" },
      make("div", {}, make("label", { for: "prefix" }, "Search by the beginning"), field),
      make("div", {}, make("label", { for: "which" }, "Show"), choice)),
    legend([["leader", "left in the current segment"], ["clock", "the next segment"],
      ["used", "handed out"]]),
    list, pages));
  every(2000, load);
  return {};
}

// --- one tag ---

function slotText(slot) {
  if (!slot || slot.size === 0) return "empty";
  const end = BigInt(slot.end);
  return `${big(slot.next_id)} up to ${big(end - 1n)}: ` +
    `${number(slotLeft(slot))} of ${number(slot.size)} left`;
}

function heldText(node, name) {
  const segment = node.tags.get(name);
  return make("p", { class: "small" }, `Node ${node.node_id}: current ` +
    `${slotText(segment.slots[0])}; next ${slotText(segment.slots[1])}` +
    (segment.refill_in_flight ? " (a refill is under way)" : ""));
}

function tagFacts(tag) {
  const segments = segmentsOf(tag.tag);
  const list = make("dl");
  const add = (what, value) => list.append(make("dt", {}, what), make("dd", {}, value));
  add("description", tag.description || "–");
  add("mode", modeChip(tag));
  if (tag.paused) add("paused", make("span", { class: "wrong" }, tag.reason || "no reason given"));
  if (tag.shape) {
    add("its ids are", `texts: ${tag.shape}` +
      (tag.key === undefined ? "" : `, by key ${tag.key} now`));
  }
  if (tag.increment) {
    const first = tag.offset || tag.increment;
    add("its numbers", `${number(first)}, ${number(first + tag.increment)}, …: ` +
      `id mod ${number(tag.increment)} = ${number(tag.offset)}`);
  }
  add("max_id", `${big(tag.max_id)}: no node has an id from here on`);
  add("max", tag.max ? `${big(tag.max)}, of which ${big(leftBelow(tag))} are left` : "none");
  add("step", `${number(tag.step)} to ${number(tag.max_step)}` +
    (segments.length
      ? `; the last segments had ${segments.map((s) => number(s.step)).join(", ")}` : ""));
  add("ids a second", segments.length ? `${number(rateOf(tag.tag))} on all nodes` : "not in use");
  add("memory lasts", memoryLasts(tag.tag) +
    (tag.cover_s ? `; it is to last ${lasting(tag.cover_s)} on each node` : ""));
  add("the counter lasts", counterLasts(tag));
  add("made, changed", `${tag.created.slice(0, 19).replace("T", " ")}, ` +
    tag.updated.slice(0, 19).replace("T", " "));
  if (tag.warning) add("warning", make("span", { class: "wrong" }, tag.warning));
  return list;
}

function oneTag(box, name) {
  const facts = make("div");
  const bars = make("div");
  const change = make("div");
  const v = { tag: null };
  box.append(make("p", {}, make("a", { href: "#tags" }, "← all tags")),
    make("div", { class: "card" }, make("h2", {}, name), bars, facts), change);
  const load = async () => {
    const [tag, held] = await Promise.all([
      ask("GET", `/api/tags/${enc(name)}?consistency=local`),
      ask("GET", `/api/cluster/segments?prefix=${enc(name)}&limit=1`)]);
    v.tag = tag;
    noteHolders(held.nodes);
    bars.replaceChildren(make("h3", {}, "Buffers of each node"), ...holderBars(tag, true),
      ...S.holders.filter((node) => node.tags.has(name)).map((node) => heldText(node, name)),
      make("h3", {}, "Ids a second"), sparkline(name, 600, 60));
    facts.replaceChildren(tagFacts(v.tag));
    if (!change.hasChildNodes()) change.append(changeCard(name, v, load), pauseCard(name, v, load));
  };
  every(1000, async () => {
    try { await load(); } catch (error) {
      facts.replaceChildren(make("p", { class: "wrong", role: "alert" }, error.message));
      throw error;
    }
  });
  return {};
}

// What a change means, in sentences; or what is wrong with it.
function preview(tag, field, text) {
  if (!/^\d{1,19}$/.test(text)) return { wrong: "A whole number, without signs or commas." };
  const value = BigInt(text);
  if (field === "cover_s") {
    if (value > 86400n) return { wrong: "Not above 86,400 (a day); 0: none." };
    if (tag.mode !== "trend") return { wrong: "Nodes hold no ids of this mode." };
    return { body: { cover_s: Number(value) }, says: [ value === 0n
      ? "Segments are sized by step and the rate alone."
      : `Each node's segments last ${lasting(Number(value))} at its rate, after two refills.`,
    "A node that dies skips what it holds: two segments at the most."] };
  }
  if (field === "step") {
    if (value < 1n || value > 1000000000n) return { wrong: "From 1 to 1,000,000,000." };
    if (value > BigInt(tag.max_step)) {
      return { wrong: `Not above max_step, ${number(tag.max_step)}: raise that first.` };
    }
    const rate = Math.max(0, ...segmentsOf(tag.tag).map((segment) => segment.rate_per_s));
    return { body: { step: Number(value) }, says: [
      `The smallest segment goes from ${number(tag.step)} to ${big(value)} ids.`,
      rate > 0 ? `At ${number(rate)} ids a second one lasts ${lasting(Number(value) / rate)}; ` +
        "larger ones are taken automatically when the rate needs them."
        : "Larger ones are taken automatically when the rate needs them.",
      `A node that dies skips up to ${big(2n * value)} ids of this tag.`,
      "Segments that nodes hold now are used up first. No id is lost or repeated."] };
  }
  const now = BigInt(tag.max_id);
  if (value > MAX_ID) return { wrong: `Not above ${big(MAX_ID)}.` };
  if (value <= now) {
    return { wrong: `Above ${big(now)}: lower ones would hand out ids again.` };
  }
  if (tag.max && value > BigInt(tag.max)) return { wrong: `Not above max, ${big(tag.max)}.` };
  if (value - now > 1n << 48n) {
    return { wrong: "That is a jump of more than 2^48 ids, which the node refuses without force: " +
      "by the API or leafctl alone." };
  }
  const left = BigInt(tag.max || MAX_ID) - value;
  if (left < 1000000n) {
    return { wrong: "Fewer than 1,000,000 ids would be left, which the node refuses without " +
      "force: by the API or leafctl alone." };
  }
  return { body: { max_id: text }, wait: true, says: [
    `${big(value - now)} ids are skipped, for good: the next ones begin at ${big(value)}.`,
    "All nodes burn what they hold of this tag" + (leftOf(tag.tag) > 0
      ? ` (${big(leftOf(tag.tag))} ids)` : "") + ", and the answer waits for all of them.",
    `${big(left)} ids are left ${tag.max ? "below max" : "below 2^63"}.`,
    "It cannot be taken back."] };
}

function changeCard(name, v, load) {
  const card = make("div", { class: "card" }, ...heading("Change it"));
  if (!may("tags")) {
    card.append(make("p", { class: "soft" }, `Read only: this needs the role tags, and ` +
      `${S.you.name} has ${S.you.roles.join(", ") || "none"}.`));
    return card;
  }
  const field = make("select", { id: "field" }, make("option", { value: "step" }, "step"),
    make("option", { value: "max_id" }, "max_id"),
    make("option", { value: "cover_s" }, "cover_s"));
  const value = make("input", { id: "value", inputmode: "numeric", autocomplete: "off",
    size: "22" });
  const hint = make("div", { id: "hint", "aria-live": "polite" });
  const result = make("div", { role: "status" });
  const tell = () => {
    result.replaceChildren();
    const seen = value.value.trim() === "" ? null
      : preview(v.tag, field.value, value.value.trim());
    go.disabled = !seen || Boolean(seen.wrong);
    hint.replaceChildren(...(!seen ? [] : seen.wrong ? [make("p", { class: "wrong" }, seen.wrong)]
      : [make("ul", {}, ...seen.says.map((text) => make("li", {}, text)))]));
  };
  const send = async (seen) => {
    try {
      await ask("PUT", `/api/tags/${enc(name)}${seen.wait ? "?wait=all" : ""}`, seen.body);
      value.value = "";
      tell();
      result.replaceChildren(make("p", { class: "fine" }, "Done; the audit has it."));
    } catch (error) {
      result.replaceChildren(make("p", { class: "wrong" }, `Refused: ${error.message}`));
    }
    load().catch(() => {});
  };
  const go = make("button", { type: "submit", class: "main" }, "Look at it once more …");
  go.disabled = true;
  value.addEventListener("input", tell);
  field.addEventListener("change", tell);
  card.append(make("form", { onsubmit: (event) => {
    event.preventDefault();
    const seen = preview(v.tag, field.value, value.value.trim());
    if (!seen.wrong) confirmChange(name, field.value, value.value.trim(), seen, send);
  } }, make("div", { class: "fields" },
    make("div", {}, make("label", { for: "field" }, "Field"), field),
    make("div", {}, make("label", { for: "value" }, "New value"), value), go)), hint, result);
  return card;
}

// Pause the tag, or resume it.
function pauseCard(name, v, load) {
  const card = make("div", { class: "card" }, ...heading("Pause it"));
  if (!may("tags")) return make("div");
  const reason = make("input", { id: "reason", maxlength: "200", size: "40" });
  const result = make("div", { role: "status" });
  const go = (paused) => async () => {
    try {
      await ask("PUT", `/api/tags/${enc(name)}`,
        paused ? { paused, reason: reason.value } : { paused });
      result.replaceChildren(make("p", { class: "fine" }, "Done; the audit has it."));
    } catch (error) {
      result.replaceChildren(make("p", { class: "wrong" }, `Refused: ${error.message}`));
    }
    load().catch(() => {});
  };
  card.append(make("p", { class: "soft" }, "While it is paused no node hands out ids of it. What " +
    "nodes hold is handed out afterwards."), make("div", { class: "fields" },
    make("div", {}, make("label", { for: "reason" }, "Reason, for clients"), reason),
    make("button", { type: "button", id: "pause", class: "risk", onclick: go(true) }, "Pause"),
    make("button", { type: "button", id: "resume", onclick: go(false) }, "Resume")), result);
  return card;
}

function confirmChange(name, field, value, seen, send) {
  const box = dialog("confirm", `Set ${field} of ${name} to ${big(value)}?`,
    make("ul", {}, ...seen.says.map((text) => make("li", {}, text))),
    make("p", { class: "soft small" }, "The audit keeps who changed what."),
    make("div", { class: "pages" },
      make("button", { type: "button", onclick: () => box.close(), autofocus: "" }, "No"),
      make("button", { type: "button", id: "yes", class: seen.wait ? "risk" : "main",
        onclick: () => { box.close(); send(seen); } }, "Yes, set it")));
}

// --- workers ---

function workerAxis(workers, now) {
  const wide = Math.max(300, element("view").clientWidth - 40);
  const left = Math.min(230, wide * 0.45);
  const held = workers.filter((w) => w.state === "held" && w.until_ms >= now);
  const ends = held.map((w) => w.until_ms);
  const from = now - 60000;
  const to = Math.max(now + 600000, ...ends);
  const x = (t) => left + ((Math.min(Math.max(t, from), to) - from) / (to - from)) *
    (wide - left - 8);
  const high = workers.length * 26 + 26;
  const svg = draw("svg", { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, class: "axis",
    role: "img", "aria-label": `${held.length} worker ids are held; the table has them` });
  for (let i = 0; i <= 4; i++) {
    const t = from + ((to - from) * i) / 4;
    svg.append(draw("line", { x1: x(t), x2: x(t), y1: 0, y2: high - 18, class: "grid" }));
    svg.append(draw("text", { x: x(t), y: high - 4,
      "text-anchor": i === 4 ? "end" : i === 0 ? "start" : "middle" }, clockOf(t)));
  }
  workers.forEach((w, i) => {
    const y = i * 26;
    const name = `${w.worker_id}  ${w.name}`;
    const fits = Math.floor((left - 8) / 7);
    svg.append(draw("text", { x: 0, y: y + 16, class: "worker" },
      name.length > fits ? name.slice(0, fits - 1) + "…" : name));
    if (w.state === "held" && w.until_ms >= from) {
      const begin = x(w.updated_ms);
      svg.append(draw("rect", { x: begin, y: y + 4, width: Math.max(3, x(w.until_ms) - begin),
        height: 16, rx: 4, fill: color(w.kind === "node" ? "leader" : "clock") }));
    }
  });
  svg.append(draw("line", { x1: x(now), x2: x(now), y1: 0, y2: high - 18,
    stroke: color("bad"), "stroke-width": 1.5 }));
  return svg;
}

show.workers = (box) => {
  const v = { stack: [-1], workers: [], next: null, now: 0 };
  const axis = make("div");
  const table = make("div");
  const back = make("button", { type: "button", onclick: () => { v.stack.pop(); load(); } },
    "← back");
  const more = make("button", { type: "button",
    onclick: () => { v.stack.push(v.next); load(); } }, "more →");
  const load = async () => {
    const after = v.stack[v.stack.length - 1];
    const answer = await ask("GET", "/api/workers?consistency=local&limit=50" +
      (after >= 0 ? `&after=${after}` : ""));
    Object.assign(v, { workers: answer.workers, next: answer.next, now: answer.log_time_ms });
    back.disabled = v.stack.length === 1;
    more.disabled = v.next === null;
    axis.replaceChildren(v.workers.length ? workerAxis(v.workers, v.now)
      : make("p", { class: "soft" }, "Nobody ever held a worker id."));
    table.replaceChildren(v.workers.length ? tableOf("worker ids", [["id", true], ["held by"],
      ["kind"], ["state"], ["until"], ["epoch", true], ["address"]],
    v.workers.map((w) => [String(w.worker_id), w.name, w.kind,
      w.state === "held" && w.until_ms < v.now ? "over" : w.state, new Date(w.until_ms)
        .toLocaleString("en-GB"), String(w.epoch), w.address || "–"])) : "");
  };
  box.append(make("div", { class: "card" },
    ...heading("Worker ids", "Who may stamp snowflake ids under which worker id, from its last " +
      "renewal until when. The red line is the cluster's time."),
    legend([["leader", "nodes of leafd"], ["clock", "generators of others"]]), axis, table,
    make("div", { class: "pages" }, back, more)));
  every(2000, load);
  return {};
};

// --- decode ---

const LEAF = { epoch_ms: 1288834974657, time_bits: 41, worker_bits: 10, sequence_bits: 12 };

function takeApart(text, layout) {
  if (!/^\d{1,19}$/.test(text)) throw new Error("An id is a whole number without signs or commas.");
  const id = BigInt(text);
  if (id > MAX_ID) throw new Error(`An id is at most ${big(MAX_ID)}.`);
  const w = BigInt(layout.worker_bits);
  const q = BigInt(layout.sequence_bits);
  return { id, time: (id >> (w + q)) + BigInt(layout.epoch_ms),
    worker: (id >> q) & ((1n << w) - 1n), sequence: id & ((1n << q) - 1n),
    bits: id.toString(2).padStart(layout.time_bits + layout.worker_bits + layout.sequence_bits,
      "0") };
}

// Those that this node knows. order names the fields from the top bit down.
function layoutRow(layout) {
  const bits = layout.order.split("-").map((field) => `${layout[`${field}_bits`]} ${field}`);
  return [layout.name, bits.join(", "), `${number(layout.unit_ms)} ms`,
    new Date(layout.epoch_ms).toISOString().slice(0, 10),
    new Date(layout.last_ms).toISOString().slice(0, 10), layout.deleted ? "deleted" : "in use"];
}

async function showLayouts(box) {
  const { layouts } = await ask("GET", "/api/layouts");
  box.replaceChildren(layouts.length ? tableOf("layouts", [["name"], ["bits, from the top"],
    ["unit", true], ["begins"], ["ends"], ["state"]], layouts.map(layoutRow))
    : make("p", { class: "soft" }, "There are none: PUT /api/layouts/NAME makes one."));
}

show.decode = (box, text) => {
  const layout = S.status.snowflake || LEAF;
  const field = make("input", { id: "id", inputmode: "numeric", autocomplete: "off", value: text,
    size: "26", placeholder: "1256557484213448722" });
  const out = make("div", { "aria-live": "polite" });
  const tell = () => {
    const id = field.value.trim().replaceAll(",", "");
    if (!id) { out.replaceChildren(); return; }
    try {
      const parts = takeApart(id, layout);
      const date = new Date(Number(parts.time));
      const list = make("dl");
      const add = (what, value) => list.append(make("dt", {}, what), make("dd", {}, value));
      add("time", isNaN(date) ? "beyond what a calendar has" : date.toISOString());
      add("worker id", String(parts.worker));
      add("sequence", String(parts.sequence));
      const t = layout.time_bits;
      const w = layout.worker_bits;
      const part = (name, from, to, ink) => make("div", { style: `background:${color(ink)};` +
        `flex:${to - from + 6}` }, name, make("code", {}, parts.bits.slice(from, to)));
      out.replaceChildren(make("div", { class: "bits" }, part("time", 0, t, "leader"),
        part("worker id", t, t + w, "links"), part("sequence", t + w, undefined, "clock")), list);
      out.querySelector(".bits > div:last-child").style.flex = String(layout.sequence_bits + 6);
    } catch (error) {
      out.replaceChildren(make("p", { class: "wrong" }, error.message));
    }
  };
  field.addEventListener("input", tell);
  box.append(make("div", { class: "card" }, ...heading("Decode a snowflake id",
    `By ${S.status.snowflake ? "the cluster's" : "Leaf's"} layout: ${layout.time_bits} bits of ` +
    `time since ${new Date(layout.epoch_ms).toISOString().slice(0, 10)}, ${layout.worker_bits} of ` +
    `worker id, ${layout.sequence_bits} of sequence. It is done here: nothing is sent.`),
  make("div", { class: "fields" }, make("div", {}, make("label", { for: "id" }, "Id"), field)),
  out));
  const layouts = make("div");
  box.append(make("div", { class: "card" }, ...heading("Layouts by name", "Snowflake ids in " +
    "other shapes than the cluster's own: layout=NAME, where ids are taken or decoded."),
  layouts));
  every(5000, () => showLayouts(layouts));
  tell();
  return {};
};

// --- events ---

const KIND_INK = { election: "leader", leaderless: "warn", member: "members", link: "links",
  level: "clock", refusal: "disk", reload: "data", snapshot: "p50", alarm: "bad",
  alarm_over: "good", start: "soft" };
const KIND_TEXT = { alarm_over: "over" };

function kindChip(kind) {
  return make("span", {}, make("span", { class: "chip",
    style: `background:${color(KIND_INK[kind] || "soft")}` }, KIND_TEXT[kind] || kind));
}

function eventList(events) {
  if (!events.length) return make("p", { class: "soft" }, "Nothing yet.");
  return make("ol", { class: "events" }, ...events.slice().reverse().map((event) =>
    make("li", {}, make("time", { datetime: event.time, title: event.time }, clockOf(event.time)),
      kindChip(event.kind), make("span", { class: "text" }, event.text))));
}

function eventAxis(events) {
  const wide = Math.max(280, element("view").clientWidth - 40);
  const svg = draw("svg", { width: wide, height: 70, viewBox: `0 0 ${wide} 70`, class: "axis",
    role: "img", "aria-label": `${events.length} events; the list has them` });
  const to = Date.now();
  const from = Math.min(to - 60000, ...events.map((event) => Date.parse(event.time)));
  const x = (t) => 8 + ((t - from) / (to - from)) * (wide - 16);
  for (let i = 0; i <= 4; i++) {
    const t = from + ((to - from) * i) / 4;
    svg.append(draw("line", { x1: x(t), x2: x(t), y1: 0, y2: 48, class: "grid" }));
    svg.append(draw("text", { x: x(t), y: 64,
      "text-anchor": i === 4 ? "end" : i === 0 ? "start" : "middle" }, clockOf(t)));
  }
  events.forEach((event, i) => {
    const dot = draw("circle", { cx: x(Date.parse(event.time)), cy: 10 + (i % 4) * 10, r: 5,
      fill: color(KIND_INK[event.kind] || "band") });
    dot.append(draw("title", {}, `${clockOf(event.time)} ${event.text}`));
    svg.append(dot);
  });
  return svg;
}

show.events = (box) => {
  const axis = make("div");
  const list = make("div");
  const choice = make("select", { id: "kind" }, make("option", { value: "" }, "all events"),
    ...Object.keys(KIND_INK).map((kind) => make("option", { value: kind },
      KIND_TEXT[kind] ? "alarms that are over" : kind)));
  box.append(make("div", { class: "card" }, ...heading("Events",
    "What this node has seen since it started: the last 512."),
  make("div", { class: "fields" }, make("div", {}, make("label", { for: "kind" }, "Show"),
    choice)), axis, list));
  const update = (what) => {
    if (what !== "events") return;
    const events = S.events.filter((event) => !choice.value || event.kind === choice.value);
    axis.replaceChildren(eventAxis(events));
    list.replaceChildren(eventList(events));
  };
  choice.addEventListener("change", () => update("events"));
  return { update };
};

main();
