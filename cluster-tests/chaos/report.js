const D = JSON.parse(document.getElementById("data").textContent);
const NODES = D.nodes;
const LEFT = 74;
const RIGHT = 14;
const GROUPS = { process: "processes", links: "links", disk: "disks", data: "data files",
  clock: "clocks", members: "members" };
const ROLES = { leader: "leads", follower: "follows", leaderless: "knows no leader",
  silent: "does not answer", down: "process gone" };
const view = { from: 0, to: D.length, group: "all" };
const page = document.getElementById("page");
const tip = document.getElementById("tip");

// --- small helpers, beside those of look.js ---

function clock(seconds) {
  const whole = Math.floor(seconds);
  const minutes = Math.floor(whole / 60);
  const rest = String(whole % 60).padStart(2, "0");
  const hours = Math.floor(minutes / 60);
  if (hours) return `${hours}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
  return `${minutes}:${rest}`;
}

function latency(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms >= 1000) return (ms / 1000).toFixed(2) + " s";
  return ms >= 10 ? ms.toFixed(0) + " ms" : ms.toFixed(2) + " ms";
}

const width = () => document.getElementById("tracks").clientWidth;
const findingsText = (n) => (n === 1 ? "1 finding" : `${n} findings`);
const x = (t) => LEFT + ((t - view.from) / (view.to - view.from)) * (width() - LEFT - RIGHT);
const time = (px) => view.from + ((px - LEFT) / (width() - LEFT - RIGHT)) * (view.to - view.from);
const clip = (t) => Math.min(Math.max(t, view.from), view.to);
const seen = (from, to) => to >= view.from && from <= view.to;

function ticks() {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];
  const step = steps.find((s) => (view.to - view.from) / s <= 12) || 7200;
  const found = [];
  for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) found.push(t);
  return found;
}

function block(svg, from, to, y, height, fill, more) {
  const left = x(clip(from));
  const wide = Math.max(x(clip(to)) - left, 2);
  svg.append(draw("rect", { x: left, y, width: wide, height, fill, ...more }));
  return wide;
}

// --- the head ---

function head() {
  const s = D.summary;
  const bad = s.findings > 0;
  const errors = D.errors.reduce((sum, row) => sum + row.count, 0);
  const title = make("div", { class: "top" }, make("h1", {}, "leafd under chaos"),
    make("span", { class: "soft" }, `seed ${s.seed} · ${s.nodes} nodes · ${clock(D.length)} · ` +
      `${s.at} · leafd ${D.version}`),
    make("span", { class: "space" }),
    make("button", { onclick: theme, title: "light or dark" }, "◐ theme"));
  const checked = "no id twice, order kept, every acknowledged change on every node, errors only " +
    "where permitted, every node back in time" +
    (s.undecided ? ` (${s.undecided} gaps or names would have taken too long to decide)` : "");
  const verdict = make("div", { class: "card verdict" + (bad ? " bad" : "") },
    make("div", { class: "mark" }, bad ? "✗" : "✓"),
    make("div", {},
      make("strong", {}, bad ? findingsText(s.findings) : "Nothing found"),
      make("p", { class: "soft" }, bad ? `Logs, data and histories: ${D.directory}` : checked),
      make("p", { class: "small" }, "again: ", make("code", {}, D.replay))));
  const tiles = make("div", { class: "tiles" },
    tile(short(s.ids), "ids handed out, all compared"),
    tile(short(s.requests), "requests recorded"),
    tile(number(s.faults), `faults in ${s.episodes} episodes`),
    tile(s.worst_recovery_s.toFixed(2) + " s", "slowest recovery of a node (limit 10 s)"),
    tile(short(errors), bad ? "errors seen by clients" : "errors seen, each where permitted"),
    tile(number(D.admin.acknowledged || 0), "acknowledged changes, all found again"));
  page.append(title, verdict, tiles);
  if (bad) page.append(findings());
}

function findings() {
  const list = make("ul", { class: "findings" });
  for (const finding of D.findings.slice(0, 100)) {
    const chip = make("span", { class: "chip", style: "background:" + color("bad") },
      finding.check);
    list.append(make("li", {}, chip, make("pre", {}, finding.text)));
  }
  return make("div", { class: "card" }, make("h2", {}, "Found"), list);
}

// --- the timeline ---

function timeline() {
  const card = make("div", { class: "card", id: "timeline" });
  const names = { all: "all requests", segment: "segment ids", snowflake: "snowflake ids",
    strict: "strict ids", admin: "administration" };
  const choice = make("select", { onchange: (event) => { view.group = event.target.value;
    redraw(); } });
  for (const [group, text] of Object.entries(names)) {
    if (group !== "strict" || D.requests.strict) {
      choice.append(make("option", { value: group }, text));
    }
  }
  card.append(make("h2", {}, "What was done, and what the clients got"),
    make("p", { class: "soft small" }, "Drag to zoom, double click to see all. Behind the " +
      "curves of a node stand the faults that struck it; latencies stand where the request was " +
      "sent."),
    make("div", { class: "bar" }, choice,
      make("button", { onclick: () => zoom(0, D.length) }, "see all")),
    legend(Object.entries(ROLES)),
    legend(Object.entries(GROUPS)),
    legend([["area-line", "ids a second"], ["p50", "p50"], ["p99", "p99"],
      ["max", "slowest"], ["error", "errors; above, the machine had no time"],
      ["unwell", "errors are permitted"]], true),
    make("div", { id: "tracks" }));
  page.append(card);
}

function grid(svg, height, labels) {
  for (const t of ticks()) {
    svg.append(draw("line", { x1: x(t), x2: x(t), y1: 0, y2: height, class: "grid" }));
    if (labels) {
      svg.append(draw("text", { x: x(t), y: height + 13, "text-anchor": "middle" }, clock(t)));
    }
  }
}

function overview() {
  const svg = draw("svg", { height: 96, class: "track" });
  const series = NODES.map((node) => D.series[node][view.group].ids);
  const sums = series[0].map((_, at) => series.reduce((sum, one) => sum + one[at], 0));
  grid(svg, 74, true);
  svg.append(draw("text", { x: 0, y: 12, class: "name" }, "cluster"));
  D.episodes.forEach((episode, at) => {
    const end = episode.healed ?? D.length;
    if (!seen(episode.begin, end)) return;
    const wide = block(svg, episode.begin, end, 0, 18, color("band"),
      { opacity: at % 2 ? 0.75 : 1, rx: 3 });
    const left = x(clip(episode.begin));
    if (wide > episode.family.length * 5.6 + 8) {
      svg.append(draw("text", { x: left + 4, y: 13, class: "on-bar" }, episode.family));
    }
  });
  for (const [from, to] of D.starved.filter(([a, b]) => seen(a, b))) {
    block(svg, from, to, 18, 3, color("error"));
  }
  area(svg, sums, 24, 50);
  return svg;
}

function area(svg, values, y, height) {
  const top = Math.max(1, ...values);
  const at = (i) => x(clip(i * D.slice));
  let path = "";
  let line = "";
  values.forEach((value, i) => {
    if (!seen(i * D.slice, (i + 1) * D.slice)) return;
    const up = y + height - (value / top) * height;
    line += `${line ? "L" : "M"}${at(i)} ${up}L${at(i + 1)} ${up}`;
    path += `${path ? "L" : `M${at(i)} ${y + height}L`}${at(i)} ${up}L${at(i + 1)} ${up}`;
  });
  if (!line) return;
  svg.append(draw("path", { d: `${path}L${x(clip(view.to))} ${y + height}Z`, fill: color("area"),
    opacity: 0.55 }));
  svg.append(draw("path", { d: line, fill: "none", stroke: color("area-line"),
    "stroke-width": 1.2 }));
  svg.append(draw("text", { x: LEFT - 8, y: y + 9, "text-anchor": "end" }, short(top) + "/s"));
}

function lanes(bars) {
  const ends = [];
  return bars.map((bar) => {
    let lane = ends.findIndex((end) => end <= bar.begin);
    if (lane < 0) lane = ends.length;
    ends[lane] = bar.end;
    return lane;
  });
}

function nodeTrack(node) {
  const bars = D.bars.filter((bar) => bar.nodes.includes(node))
    .sort((a, b) => a.begin - b.begin);
  const placed = lanes(bars);
  const rows = Math.max(1, ...placed.map((lane) => lane + 1));
  const ribbon = 0;
  const faults = 20;
  const ids = faults + rows * 17 + 8;
  const waits = ids + 52;
  const wrong = waits + 92;
  const height = wrong + 22;
  const svg = draw("svg", { height: height + 18, class: "track" });
  grid(svg, height, true);
  for (const bar of bars.filter((b) => seen(b.begin, b.end))) {
    block(svg, bar.begin, bar.end, ids - 4, height - ids + 4, color(bar.group), { opacity: 0.09 });
  }
  for (const [from, to, role] of D.roles[node].filter(([a, b]) => seen(a, b))) {
    block(svg, from, to, ribbon, 12, color(role));
  }
  for (const [from, to] of D.unwell[node].filter(([a, b]) => seen(a, b))) {
    block(svg, from, to, ribbon + 13, 3, color("unwell"));
  }
  bars.forEach((bar, at) => {
    if (!seen(bar.begin, bar.end)) return;
    const y = faults + placed[at] * 17;
    const wide = block(svg, bar.begin, bar.end, y, 14, color(bar.group), { rx: 3 });
    const words = bar.kind.replace(/_/g, " ");
    if (wide > words.length * 6 + 8) {
      svg.append(draw("text", { x: x(clip(bar.begin)) + 4, y: y + 10.5, class: "on-bar" }, words));
    }
  });
  svg.append(draw("text", { x: 0, y: 11, class: "name" }, `node ${node}`));
  const series = D.series[node][view.group];
  area(svg, series.ids, ids, 44);
  latencies(svg, series, waits, 84);
  errors(svg, series.errors, wrong, 18);
  return make("div", { class: "node" }, svg);
}

function latencies(svg, series, y, height) {
  const low = -1;
  const high = 4.3;
  const up = (ms) => y + height -
    ((Math.log10(Math.max(ms, 0.1)) - low) / (high - low)) * height;
  for (const [ms, text] of [[1, "1 ms"], [10, "10 ms"], [100, "100 ms"], [1000, "1 s"],
    [10000, "10 s"]]) {
    svg.append(draw("line", { x1: LEFT, x2: width() - RIGHT, y1: up(ms), y2: up(ms),
      class: "grid" }));
    svg.append(draw("text", { x: LEFT - 8, y: up(ms) + 4, "text-anchor": "end" }, text));
  }
  for (const [name, thick] of [["max", 1], ["p99", 1.3], ["p50", 1.5]]) {
    let path = "";
    let open = false;
    series[name].forEach((ms, i) => {
      const t = (i + 0.5) * D.slice;
      if (ms === null || !seen(t, t)) { open = false; return; }
      path += `${open ? "L" : "M"}${x(t).toFixed(1)} ${up(ms).toFixed(1)}`;
      if (!open) path += `h0.5`;
      open = true;
    });
    svg.append(draw("path", { d: path, fill: "none", stroke: color(name), "stroke-width": thick,
      "stroke-linejoin": "round", "stroke-linecap": "round" }));
  }
}

function errors(svg, values, y, height) {
  const top = Math.max(1, ...values);
  if (Math.max(...values) > 0) {
    svg.append(draw("text", { x: LEFT - 8, y: y + 9, "text-anchor": "end" }, short(top)));
  }
  values.forEach((value, i) => {
    if (!value || !seen(i * D.slice, (i + 1) * D.slice)) return;
    const tall = Math.max(2, (value / top) * height);
    block(svg, i * D.slice, (i + 1) * D.slice, y + height - tall, tall, color("error"));
  });
}

function redraw() {
  const tracks = document.getElementById("tracks");
  tracks.replaceChildren(make("div", { class: "node" }, overview()), ...NODES.map(nodeTrack));
  for (const svg of tracks.querySelectorAll("svg")) {
    svg.append(draw("line", { class: "cursor", y1: 0, y2: svg.getAttribute("height") - 18,
      visibility: "hidden" }));
    svg.append(draw("rect", { class: "brush", y: 0, height: svg.getAttribute("height") - 18,
      width: 0 }));
  }
}

function zoom(from, to) {
  view.from = Math.max(0, from);
  view.to = Math.min(D.length, Math.max(to, from + 2));
  redraw();
}

// --- pointing ---

function table(rows) {
  const body = make("table");
  for (const row of rows) {
    body.append(make("tr", {}, make("th", {}, row[0]), ...row.slice(1).map((cell) =>
      make("td", {}, cell))));
  }
  return body;
}

function nodeRow(node, t) {
  const at = Math.min(Math.floor(t / D.slice), D.series[node].all.ids.length - 1);
  const s = D.series[node][view.group];
  const role = D.roles[node].filter(([from, to]) => from <= t && t <= to).pop();
  return [`node ${node}`, role ? ROLES[role[2]] : "", `${short(s.ids[at])} ids/s`,
    `${latency(s.p50[at])} / ${latency(s.p99[at])} / ${latency(s.max[at])}`,
    s.errors[at] ? `${s.errors[at]} errors` : ""];
}

function point(event) {
  const svg = event.target.closest ? event.target.closest("svg.track") : null;
  const lines = document.querySelectorAll(".cursor");
  if (!svg) {
    tip.hidden = true;
    lines.forEach((line) => line.setAttribute("visibility", "hidden"));
    return;
  }
  const px = event.clientX - svg.getBoundingClientRect().left;
  const t = clip(time(px));
  lines.forEach((line) => {
    line.setAttribute("x1", x(t));
    line.setAttribute("x2", x(t));
    line.setAttribute("visibility", "visible");
  });
  if (drag) {
    document.querySelectorAll(".brush").forEach((brush) => {
      brush.setAttribute("x", Math.min(x(drag.t), x(t)));
      brush.setAttribute("width", Math.abs(x(t) - x(drag.t)));
    });
  }
  const episode = D.episodes.find((e) => e.begin <= t && t <= (e.healed ?? D.length));
  const faults = D.bars.filter((bar) => bar.begin <= t && t <= bar.end);
  const words = faults.map((bar) => make("div", {},
    make("span", { style: `color:${color(bar.group)}` }, "■ "),
    `${bar.kind.replace(/_/g, " ")} · node ${bar.nodes.join(", ")} · ${bar.text}`));
  tip.replaceChildren(make("b", {}, `${clock(t)}${(t % 1).toFixed(1).slice(1)}` +
    (episode ? ` · ${episode.number}: ${episode.family}` : "")), ...words.slice(0, 6),
    table(NODES.map((node) => nodeRow(node, t))),
    make("div", { class: "soft" }, "p50 / p99 / slowest"));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const right = event.clientX + 16 + box.width > innerWidth;
  tip.style.left = (right ? event.clientX - box.width - 16 : event.clientX + 16) + "px";
  tip.style.top = Math.min(event.clientY + 14, innerHeight - box.height - 8) + "px";
}

let drag = null;

function listen() {
  document.addEventListener("mousemove", point);
  document.addEventListener("mousedown", (event) => {
    const svg = event.target.closest && event.target.closest("svg.track");
    if (!svg || event.button !== 0) return;
    drag = { t: clip(time(event.clientX - svg.getBoundingClientRect().left)), svg };
    event.preventDefault();
  });
  document.addEventListener("mouseup", (event) => {
    if (!drag) return;
    const t = clip(time(event.clientX - drag.svg.getBoundingClientRect().left));
    const from = Math.min(t, drag.t);
    const to = Math.max(t, drag.t);
    drag = null;
    if (x(to) - x(from) > 6) zoom(from, to);
    else redraw();
  });
  document.addEventListener("dblclick", (event) => {
    if (event.target.closest && event.target.closest("svg.track")) zoom(0, D.length);
  });
  addEventListener("resize", redraw);
}

// --- the rest ---

function recoveries() {
  const card = make("div", { class: "card" }, make("h2", {}, "Back again"),
    make("p", { class: "soft small" }, "Seconds from the end of an episode's faults until each " +
      "node was ready, followed the leader and had applied all that was committed. Zero: it had " +
      "been all the time."));
  const svg = draw("svg", { height: 190 });
  card.append(svg);
  page.lastChild.append(card);
  const wide = card.clientWidth - 38;
  const points = D.episodes.flatMap((e) => Object.entries(e.taken).map(([node, taken]) =>
    ({ node: Number(node), taken, episode: e })));
  const top = Math.max(10.5, ...points.map((p) => p.taken));
  const up = (s) => 165 - (Math.sqrt(s) / Math.sqrt(top)) * 150;
  for (const s of [0.1, 0.5, 1, 2, 5, 10]) {
    svg.append(draw("line", { x1: 34, x2: wide, y1: up(s), y2: up(s), class: "grid",
      ...(s === 10 ? { style: "stroke:var(--bad);stroke-dasharray:5 4" } : {}) }));
    svg.append(draw("text", { x: 28, y: up(s) + 4, "text-anchor": "end" }, s + " s"));
  }
  const across = (n) => 42 + ((n + 0.5) / Math.max(1, D.episodes.length)) * (wide - 50);
  const inks = ["leader", "clock", "disk", "links", "members", "data", "process"];
  for (const p of points) {
    const spread = (NODES.indexOf(p.node) - (NODES.length - 1) / 2) * 3;
    const dot = draw("circle", { cx: across(p.episode.number) + spread, cy: up(p.taken), r: 3.2,
      fill: color(inks[NODES.indexOf(p.node) % inks.length]), opacity: 0.85 });
    dot.append(draw("title", {}, `node ${p.node}: ${p.taken.toFixed(2)} s after ` +
      `${p.episode.number} (${p.episode.family})`));
    svg.append(dot);
  }
  svg.append(draw("text", { x: 42, y: 184 }, "episodes in their order"));
  card.append(legend(NODES.map((node, at) => [inks[at % inks.length], `node ${node}`])));
}

function rowsTable(heads, rows, go) {
  const body = make("tbody");
  rows.forEach((row, at) => {
    const line = make("tr", go ? { class: "go", onclick: () => go(at) } : {});
    row.forEach((cell, i) => line.append(make("td", heads[i][1] ? { class: "n" } : {}, cell)));
    body.append(line);
  });
  const top = make("tr", {}, ...heads.map(([text, n]) => make("th", n ? { class: "n" } : {},
    text)));
  return make("table", {}, make("thead", {}, top), body);
}

function card(title, words, ...content) {
  return make("div", { class: "card" }, make("h2", {}, title),
    make("p", { class: "soft small" }, words), ...content);
}

function errorTable() {
  if (!D.errors.length) return make("p", {}, "None.");
  const rows = D.errors.map((r) => [`node ${r.node}`, r.kind, r.code, number(r.count)]);
  return make("div", { class: "scroll" },
    rowsTable([["node"], ["request"], ["answer"], ["times", true]], rows));
}

function episodeTable() {
  const rows = D.episodes.map((e) => {
    const taken = Object.values(e.taken);
    const texts = D.bars.filter((b) => b.begin >= e.begin && b.begin <= (e.healed ?? D.length))
      .map((b) => `${b.kind.replace(/_/g, " ")} (node ${b.nodes.join(", ")})`);
    return [String(e.number), clock(e.begin), e.family, texts.join("; "),
      taken.length ? Math.max(...taken).toFixed(2) + " s" : "–"];
  });
  const heads = [["", true], ["at"], ["family"], ["what"], ["all back after", true]];
  return make("div", { class: "scroll" }, rowsTable(heads, rows, (at) => {
    const e = D.episodes[at];
    zoom(e.begin - 2, (e.healed ?? D.length) + 3);
    document.getElementById("timeline").scrollIntoView({ behavior: "smooth" });
  }));
}

function nodeTable() {
  const rows = NODES.map((node) => {
    const all = D.series[node].all;
    const total = (list) => list.reduce((sum, value) => sum + value, 0);
    const length = (spans) => spans.reduce((sum, [from, to]) => sum + to - from, 0);
    const taken = D.episodes.map((e) => e.taken[node]).filter((s) => s !== undefined);
    const memory = D.memory[node].map((point) => point[1]);
    return [`node ${node}`, number(total(all.ids) * D.slice), number(total(all.errors)),
      clock(length(D.roles[node].filter((r) => r[2] === "leader"))),
      clock(length(D.roles[node].filter((r) => r[2] === "down"))),
      clock(length(D.unwell[node])),
      taken.length ? Math.max(...taken).toFixed(2) + " s" : "–",
      memory.length ? `${Math.max(...memory).toFixed(0)} MiB` : "–"];
  });
  return rowsTable([["node"], ["ids", true], ["errors", true], ["led", true], ["gone", true],
    ["errors permitted", true], ["slowest recovery", true], ["most memory", true]], rows);
}

function tables() {
  const spaces = D.spaces.map((s) => [s.name, s.kind, number(s.ids), number(s.ranges),
    s.kind === "snowflake" ? "" : number(s.unseen)]);
  page.append(make("div", { class: "two" },
    card("Ids compared", "Every id of every client, node and life, in one space each. Ids " +
      "between the lowest and the highest that nobody was given were burnt, or wait in a " +
      "node's memory.",
      rowsTable([["space"], ["kind"], ["ids", true], ["ranges", true], ["not seen", true]],
        spaces)),
    card("Errors that clients saw", "All of them, each looked up against what was done to its " +
      "node at that time.", errorTable())));
  page.append(card("Nodes", "Times in minutes and seconds. Errors are permitted on a node that " +
    "is down, paused or cut off from a majority, until it has settled again.", nodeTable()));
  page.append(card("Episodes", "A click shows one in the timeline.", episodeTable()));
  const runs = D.runs.map((r) => [make("a", { href: D.way + r.page }, `seed ${r.seed}`), r.at,
    `${r.nodes} nodes, ${clock(r.seconds)}`, number(r.ids), String(r.faults),
    r.worst_recovery_s.toFixed(2) + " s", r.findings ? findingsText(r.findings) : "✓"]);
  const total = D.runs.reduce((sum, r) => sum + r.ids, 0);
  page.append(card("Runs in this folder", `${number(total)} ids in ${D.runs.length} runs.`,
    rowsTable([["run"], ["when"], ["what"], ["ids", true], ["faults", true],
      ["slowest recovery", true], ["verdict"]], runs)));
  page.append(card("This run", "The settings are drawn from the seed, too.", make("pre", {},
    JSON.stringify(D.settings) + "\n" + D.features.join(" "))));
}

function main() {
  document.documentElement.dataset.theme =
    matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  head();
  timeline();
  redraw();
  page.append(make("div", {}));
  recoveries();
  tables();
  listen();
}

main();
