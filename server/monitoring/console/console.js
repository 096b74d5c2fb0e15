"use strict";
// Everything that comes from the server or from clients enters the page as text, never as markup.
const at = (id) => document.getElementById(id);
const show = (id, text) => { at(id).textContent = text; };
const HISTORY = 90, HOUR = 361, PERIOD_MS = 1000, TYPING_MS = 300, SOON_MS = 200, PAGE_ROWS = 50;
const UNREACHABLE = "the server cannot be reached; trying again";
let facts = {}, before = null, token = "", page = "overview", looking = 0, nextLook = 0;
const rates = { messages: [[], []], bytes: [[], []], connections: [[]], memory: [[]] };

function short(value) {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]])
    if (value >= size) return (value / size).toFixed(1) + " " + unit;
  return value < 10 ? String(Number(value.toFixed(1))) : String(Math.round(value));
}

// "92.257356ms" is more than an eye can use; "92.3ms" is not.
const brief = (time) => time.replace(/^(\d+\.\d{1,2})\d*/, (all, kept) =>
  String(Number(Number(kept).toPrecision(3))));

// "2026-01-31T12:00:00.123456789Z" likewise.
const moment = (time) => !time || time.startsWith("0001-") ? "" : time.replace("T", " ").replace(/(\.\d{3})\d*/, "$1");

async function ask(path, choices) {
  let answer;
  try {
    answer = await fetch("./" + path, { cache: "no-store", ...choices });
  } catch {
    throw new Error(UNREACHABLE);
  }
  if (answer.status === 503) throw new Error("the server is too busy for this page; trying again");
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(said.error || path + " is not there (" + answer.status + ")");
  return said;
}

const query = (path, fields) => path + "?" + new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== ""));
const get = (path, fields) => ask(fields ? query(path, fields) : path, {});

// What needs the token; without it nothing is sent.
async function act(action, body) {
  if (!token) throw new Error(facts.can_unlock === false ? "read-only: no token is configured" : "locked: the console's token is needed");
  const headers = { "X-Console-Token": token, "Content-Type": "application/json" };
  return ask("console/" + action, { method: "POST", headers, body: JSON.stringify(body || {}) });
}

// A request to the server's own API; its answer as an object.
async function api(account, subject, body) {
  const payload = body === undefined ? "" : JSON.stringify(body);
  const answer = JSON.parse((await act("request", { account, subject: "$JS.API." + subject, payload })).text);
  if (answer.error) throw new Error(answer.error.description + " (" + answer.error.err_code + ")");
  return answer;
}

// Say in `id` what came of something that was to be done.
async function attempt(id, what) {
  try {
    const said = await what();
    at(id).className = "said good"; show(id, said);
  } catch (error) {
    at(id).className = "said bad"; show(id, error.message);
  }
}

// The first click asks, the second one acts; to go elsewhere takes the question back.
function asking(id, question, action) {
  const button = at(id), name = button.textContent;
  let asked = "";
  const take = (text) => { asked = text; button.textContent = text || name; };
  button.onblur = () => take("");
  button.onclick = () => {
    const text = question();
    if (text && asked !== text) { take(text); return; }
    take("");
    if (text) action();
  };
}

// How much each of `counts`, a Map, has grown per second since the last look at `space`.
const lastCounts = {};
function ratesOf(space, counts) {
  const now = performance.now(), last = lastCounts[space];
  if (last && now - last.at < SOON_MS) return last.rates;
  const found = new Map();
  for (const [key, count] of counts) {
    const was = last && last.counts.get(key);
    found.set(key, was === undefined || !last ? 0 : Math.max(0, (count - was) / ((now - last.at) / 1000)));
  }
  lastCounts[space] = { at: now, counts, rates: found };
  return found;
}

const node = (kind, text) => { const made = document.createElement(kind); made.textContent = text; return made; };
const RIGHT = new Set(["subs", "pending", "in", "out", "in/s", "out/s", "messages", "per second", "bytes", "keys", "values", "first", "last",
  "consumers", "lag", "redelivered", "waiting", "revision", "kept", "times", "here", "below", "members", "least", "most", "share", "clients", "leafs", "size", "chunks", "slow consumers", "history"]);

function mark(row, isChosen) {
  row.className = isChosen ? "choice chosen" : "choice";
  row.querySelector("button").setAttribute("aria-pressed", String(isChosen));
}

// The first cell of a row that can be chosen is a button; it keeps the focus although each look makes new rows.
function fill(id, heads, rows, choose, chosen) {
  const head = document.createElement("thead"), body = document.createElement("tbody");
  const focused = at(id).contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const line = (cells, kind) => {
    const row = document.createElement("tr");
    cells.forEach((cell, i) => {
      const box = node(kind, String(cell));
      if (kind === "td") { box.title = box.textContent; box.dataset.head = heads[i]; } else box.scope = "col";
      if (RIGHT.has(heads[i])) box.className = "n";
      row.append(box);
    });
    (kind === "th" ? head : body).append(row);
    return row;
  };
  line(heads, "th");
  for (const cells of rows) {
    const row = line(cells, "td");
    if (!choose) continue;
    const button = node("button", String(cells[0])), isChosen = String(cells[0]) === String(chosen);
    const pick = () => {
      for (const one of body.children) mark(one, one === row);
      choose(cells[0]);
    };
    row.onmousedown = pick;  // a click may end on the row's successor, one look later
    button.type = "button"; button.dataset.key = cells[0];
    button.onclick = (event) => { if (!event.detail) pick(); };  // by the keyboard: without a mouse's count
    row.firstChild.replaceChildren(button);
    mark(row, isChosen);
  }
  if (!rows.length) {
    const row = document.createElement("tr"), box = node("td", "nothing yet");
    box.colSpan = heads.length; box.className = "empty";
    row.append(box); body.append(row);
  }
  at(id).replaceChildren(head, body);
  if (focused === undefined) return;
  for (const button of body.querySelectorAll("button")) if (button.dataset.key === focused) button.focus({ preventScroll: true });
}

// Pages of PAGE_ROWS rows that the server cuts; `offset` is where the shown one begins.
function pager(id) {
  const back = node("button", "Previous"), on = node("button", "Next"), text = document.createElement("span");
  const what = id.replace("-pager", "");
  const own = { offset: 0, total: 0,
    show(total) {
      own.total = total;
      if (own.offset && own.offset >= total) own.offset = Math.max(0, Math.ceil(total / PAGE_ROWS) - 1) * PAGE_ROWS;
      text.textContent = total ? own.offset + 1 + " to " + Math.min(own.offset + PAGE_ROWS, total) + " of " + total : "";
      at(id).hidden = total <= PAGE_ROWS;
      back.disabled = !own.offset; on.disabled = own.offset + PAGE_ROWS >= total;
    },
    fields: () => ({ offset: own.offset, limit: PAGE_ROWS }) };
  const move = (step) => () => { own.offset = Math.max(0, own.offset + step); look(); };
  back.onclick = move(-PAGE_ROWS); on.onclick = move(PAGE_ROWS);
  back.type = on.type = "button"; back.setAttribute("aria-label", "previous page of " + what); on.setAttribute("aria-label", "next page of " + what);
  at(id).append(back, text, on); own.show(0);
  return own;
}

// What is typed or chosen in a form of filters begins at the first page.
function filters(form, ...pagers) {
  let typing = 0;
  const anew = () => { for (const one of pagers) one.offset = 0; look(); };
  at(form).oninput = () => { clearTimeout(typing); typing = setTimeout(anew, TYPING_MS); };
  at(form).onsubmit = (event) => { event.preventDefault(); clearTimeout(typing); anew(); };
}

function pairs(id, entries) {
  at(id).replaceChildren(...entries.filter(([, value]) => value !== undefined && value !== "").map(([name, value]) => {
    const row = document.createElement("div");
    row.append(node("dt", name), node("dd", String(value)));
    return row;
  }));
}

// An object as indented JSON behind a line that opens it; it stays open from look to look.
function folded(id, name, value) {
  const text = JSON.stringify(value, null, 2);
  let box = [...at(id).children].find((one) => one.dataset.name === name);
  if (!box) {
    box = document.createElement("details"); box.dataset.name = name; box.className = "message";
    box.append(node("summary", name), document.createElement("pre"));
    at(id).append(box);
  }
  if (box.lastChild.textContent !== text) box.lastChild.textContent = text;
}

// The next of 1, 2, 5, 10, 20, … : half of it is readable, too. Nothing at all is drawn as a line at 0.
function ceiling(value) {
  if (value <= 0) return 0;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value) || 10 * power;
}

function draw(id, lines, most) {
  const canvas = at(id + "-chart"), scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * scale; canvas.height = height * scale;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const top = ceiling(lines.reduce((highest, series) => series.reduce((a, b) => Math.max(a, b), highest), 0));
  const style = getComputedStyle(document.body);
  pen.font = "11px system-ui"; pen.fillStyle = style.getPropertyValue("--soft");
  pen.strokeStyle = style.getPropertyValue("--line");
  const place = (value) => 14 + (height - 20) * (1 - (top ? value / top : 0));
  for (const value of top ? [0, top / 2, top] : [0]) {
    pen.beginPath(); pen.moveTo(0, place(value)); pen.lineTo(width, place(value)); pen.stroke();
    pen.fillText(short(value), 2, place(value) - 3);
  }
  lines.forEach((series, index) => {
    pen.strokeStyle = pen.fillStyle = style.getPropertyValue(index ? "--out" : "--in"); pen.lineWidth = 2; pen.beginPath();
    series.forEach((value, i) => pen.lineTo(width - (series.length - 1 - i) * width / (most - 1), place(value)));
    pen.stroke();
    if (series.length) pen.fillRect(width - 4, place(series.at(-1)) - 2, 4, 4);  // one value makes no line
  });
}

function note(series, value) { series.push(Math.max(0, value)); if (series.length > HISTORY) series.shift(); }

function chart(varz) {
  const now = Date.parse(varz.now);  // by the server's clock: how long an answer takes varies
  if (before && now > before.now && varz.server_id === before.varz.server_id) {
    const seconds = (now - before.now) / 1000;
    const rate = (field) => (varz[field] - before.varz[field]) / seconds;
    note(rates.messages[0], rate("in_msgs")); note(rates.messages[1], rate("out_msgs"));
    note(rates.bytes[0], rate("in_bytes")); note(rates.bytes[1], rate("out_bytes"));
    note(rates.connections[0], varz.connections); note(rates.memory[0], varz.mem);
  }
  before = { now, varz };
  for (const id of ["messages", "bytes"]) ["in", "out"].forEach((way, i) => {
    if (rates[id][i].length) show(id + "-" + way, short(rates[id][i].at(-1)));
  });
}

// The lines of the last hour, from the server's samples of its counts.
async function lastHour() {
  const { fields, samples } = await get("console/history");
  const column = (name) => samples.map((sample) => sample[fields.indexOf(name)]);
  const time = column("time");
  const rate = (name) => column(name).slice(1).map((count, i) => Math.max(0, (count - column(name)[i]) / Math.max(1, time[i + 1] - time[i])));
  return { messages: [rate("in_messages"), rate("out_messages")], bytes: [rate("in_bytes"), rate("out_bytes")],
    connections: [column("connections")], memory: [column("mem")] };
}

function tell(varz, now) {
  show("connections", varz.connections); show("subscriptions", now.subscriptions);
  show("memory", short(varz.mem) + "B"); show("slow", varz.slow_consumers);
  show("behind", now.slow.map((one) => one.cid + " " + one.name + ": " + short(one.pending_bytes) + "B").join(" · ") || "none");
  at("behind").className = now.slow.length ? "bad" : "good";
  const limits = Object.entries(now.limits), rate = ratesOf("limits", new Map(limits));
  fill("limits", ["limit", "times", "per second"], limits.map(([name, count]) => [name.replaceAll("_", " "), count, short(rate.get(name))]));
}

const pages = {};  // the other scripts add theirs
pages.overview = async () => {
  const isHour = at("period").value === "hour";
  const [varz, now, hour] = await Promise.all([get("varz"), get("console/now"), isHour ? lastHour() : null]);
  show("uptime", "up " + varz.uptime);
  tell(varz, now); chart(varz);
  for (const [id, lines] of Object.entries(hour || rates)) draw(id, lines, isHour ? HOUR : HISTORY);
};
at("period").onchange = () => look();

// A page is looked at once a second, and more seldom where the server needs long for it.
async function look() {
  const mine = ++looking, began = performance.now();
  clearTimeout(nextLook);
  if (!document.hidden) {
    try {
      if (!facts.accounts) learn(await get("console/facts"));
      await pages[page]();
      at("health").className = "good"; show("health", "● serving");
    } catch (error) {
      at("health").className = "bad"; show("health", "● " + error.message);
    }
  }
  if (mine === looking) nextLook = setTimeout(look, Math.max(PERIOD_MS, 10 * (performance.now() - began)));
}

function learn(found) {
  facts = found;
  show("server", facts.server_name);
  for (const select of document.querySelectorAll("select[id$=-account]")) {
    const was = select.value;
    select.replaceChildren(...facts.accounts.map((name) => new Option(name)));
    select.value = [was, "$G", facts.accounts[0]].find((name) => facts.accounts.includes(name));
    select.hidden = facts.accounts.length < 2;
  }
  lock();
}

function lock() {
  at("unlock").hidden = Boolean(token) || !facts.can_unlock;
  at("lock").className = token ? "good" : "";
  for (const button of document.querySelectorAll("[data-acts]")) {
    button.classList.toggle("locked", !token);
    button.title = token ? "" : "needs the console's token";
  }
  show("lock", token ? "● unlocked" : facts.can_unlock ? "" : "read-only: no token is configured");
}

at("unlock").onsubmit = async (event) => {
  event.preventDefault();
  token = at("token").value;
  try {
    await act("unlock");
    at("token").value = ""; lock();
    window.dispatchEvent(new Event("unlocked"));
  } catch (error) {
    token = ""; lock(); at("lock").className = "bad";
    show("lock", error.message === UNREACHABLE ? error.message : "wrong token");
  }
};
// The address names the page, and what is chosen on it: #streams/ORDERS.
const choices = {};
const decoded = (text) => { try { return decodeURIComponent(text); } catch { return ""; } };
function goTo() {
  const [wanted, chosen] = location.hash.slice(1).split("/").map(decoded);
  page = Object.hasOwn(pages, wanted) ? wanted : "overview";
  for (const one of at("tabs").children) {
    one.className = one.dataset.page === page ? "on" : "";
    if (one.dataset.page === page) one.setAttribute("aria-current", "page"); else one.removeAttribute("aria-current");
  }
  for (const main of document.querySelectorAll("main")) main.hidden = main.id !== page;
  document.title = at("tabs").querySelector(".on").textContent + " · midge console";
  if (choices[page]) choices[page](chosen || "");
  look();
}

function address(name, chosen) {
  const hash = "#" + name + (chosen ? "/" + encodeURIComponent(chosen) : "");
  if (location.hash !== hash) history.replaceState(null, "", hash);
}

for (const button of at("tabs").children) {
  button.onclick = () => { history.pushState(null, "", "#" + button.dataset.page); goTo(); };
}
for (const form of document.querySelectorAll("main form")) form.onsubmit = (event) => event.preventDefault();
window.onhashchange = window.onpopstate = goTo;
window.addEventListener("DOMContentLoaded", goTo);
