"use strict";
// Everything that comes from the server or from clients enters the page as text, never as markup.
const at = (id) => document.getElementById(id);
const show = (id, text) => { at(id).textContent = text; };
const HISTORY = 90, INTEREST_ROWS = 100, PERIOD_MS = 1000;
const UNREACHABLE = "the server cannot be reached; trying again";
let facts = {}, before = null, token = "", page = "overview";
const rates = { messages: [[], []], bytes: [[], []] };

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

const get = (path) => ask(path, {});

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

// Rows that can be chosen take the focus, and keep it although each look makes new ones.
function fill(id, heads, rows, choose, chosen) {
  const table = document.createElement("tbody"), first = rows[0] || [];
  const focused = at(id).contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const line = (cells, kind, index) => {
    const row = document.createElement("tr");
    cells.forEach((cell, i) => {
      const box = document.createElement(kind);
      box.textContent = String(cell);
      box.title = kind === "td" ? box.textContent : "";
      if (kind === "td") box.dataset.head = heads[i];
      if (typeof first[i] === "number") box.className = "n";
      row.append(box);
    });
    if (choose && index !== undefined) {
      row.className = cells[0] === chosen ? "choice chosen" : "choice";
      row.onmousedown = () => choose(cells[0]);  // a click may end on the row's successor, one look later
      row.tabIndex = 0; row.dataset.key = cells[0];
      row.setAttribute("aria-current", String(cells[0] === chosen));
      row.onkeydown = (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(cells[0]); }
      };
    }
    table.append(row);
  };
  line(heads, "th");
  rows.forEach((row, index) => line(row, "td", index));
  if (!rows.length) {
    const row = document.createElement("tr"), box = document.createElement("td");
    box.colSpan = heads.length; box.className = "empty"; box.textContent = "nothing yet";
    row.append(box); table.append(row);
  }
  at(id).replaceChildren(table);
  if (focused === undefined) return;
  for (const row of table.children) if (row.dataset.key === focused) row.focus({ preventScroll: true });
}

// The next of 1, 2, 5, 10, 20, … : half of it is readable, too. Nothing at all is drawn as a line at 0.
function ceiling(value) {
  if (value <= 0) return 0;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value) || 10 * power;
}

function draw(id) {
  const canvas = at(id), scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * scale; canvas.height = height * scale;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const top = ceiling(Math.max(0, ...rates[id][0], ...rates[id][1]));
  const style = getComputedStyle(document.body);
  pen.font = "11px system-ui"; pen.fillStyle = style.getPropertyValue("--soft");
  pen.strokeStyle = style.getPropertyValue("--line");
  const place = (value) => 14 + (height - 20) * (1 - (top ? value / top : 0));
  for (const value of top ? [0, top / 2, top] : [0]) {
    pen.beginPath(); pen.moveTo(0, place(value)); pen.lineTo(width, place(value)); pen.stroke();
    pen.fillText(short(value), 2, place(value) - 3);
  }
  rates[id].forEach((series, index) => {
    pen.strokeStyle = style.getPropertyValue(index ? "--out" : "--in"); pen.lineWidth = 2; pen.beginPath();
    series.forEach((value, i) => pen.lineTo(width - (series.length - 1 - i) * width / (HISTORY - 1), place(value)));
    pen.stroke();
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
  }
  before = { now, varz };
  for (const id of ["messages", "bytes"]) {
    draw(id);
    ["in", "out"].forEach((way, i) => {
      if (rates[id][i].length) show(id + "-" + way, short(rates[id][i].at(-1)));
    });
  }
}

function tell(varz, connz, subsz, now) {
  show("server", facts.server_name || varz.server_name); show("uptime", "up " + varz.uptime);
  show("connections", varz.connections); show("subscriptions", now.subscriptions);
  show("memory", short(varz.mem) + "B"); show("slow", varz.slow_consumers);
  show("behind", now.slow.map((one) => one.cid + " " + one.name + ": " + short(one.pending_bytes) + "B").join(" · ") || "none");
  at("behind").className = now.slow.length ? "bad" : "good";
  fill("clients", ["cid", "name", "address", "account", "language", "subs", "in", "out", "pending", "rtt", "idle"],
    connz.connections.map((c) => [c.cid, c.name || "", c.ip + ":" + c.port, c.account || "$G",
      (c.lang || "") + " " + (c.version || ""), c.subscriptions, c.in_msgs, c.out_msgs,
      c.pending_bytes, brief(c.rtt || ""), c.idle]));
  const rows = connz.connections.length;
  show("clients-shown", rows < connz.total ? "· the busiest " + rows + " of " + connz.total : "");
  const listed = subsz.subscriptions_list || [];
  fill("interest", ["subject", "queue", "account", "cid", "messages"],
    listed.map((s) => [s.subject, s.qgroup || "", s.account, s.cid, s.msgs]));
  show("interest-shown", listed.length < INTEREST_ROWS ? "" : "· the first " + listed.length);
}

async function overview() {
  const [varz, connz, subsz, now] = await Promise.all([
    get("varz"), get("connz?limit=50&sort=msgs_from&auth=1"), get("subsz?subs=1&limit=" + INTEREST_ROWS), get("console/now")]);
  tell(varz, connz, subsz, now);
  chart(varz);
}

const pages = { overview };  // the other scripts add theirs

async function look() {
  if (!document.hidden) {
    try {
      if (!facts.accounts) learn(await get("console/facts"));
      await pages[page]();
      at("health").className = "good"; show("health", "● serving");
    } catch (error) {
      at("health").className = "bad"; show("health", "● " + error.message);
    }
  }
  setTimeout(look, PERIOD_MS);
}

function learn(found) {
  facts = found;
  for (const select of document.querySelectorAll("select[id$=-account]")) {
    select.replaceChildren(...facts.accounts.map((name) => new Option(name)));
    select.value = facts.accounts.includes("$G") ? "$G" : facts.accounts[0];
    select.hidden = facts.accounts.length < 2;
  }
  lock();
}

function lock() {
  at("unlock").hidden = Boolean(token) || !facts.can_unlock;
  at("lock").className = token ? "good" : "";
  for (const button of document.querySelectorAll("main form button:not(#clear):not(#search-next)")) {
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
function goTo() {
  const [wanted, chosen] = location.hash.slice(1).split("/").map(decodeURIComponent);
  page = pages[wanted] ? wanted : "overview";
  for (const one of at("tabs").children) {
    one.className = one.dataset.page === page ? "on" : "";
    one.setAttribute("aria-current", one.dataset.page === page ? "page" : "false");
  }
  for (const main of document.querySelectorAll("main")) main.hidden = main.id !== page;
  if (choices[page]) choices[page](chosen || "");
}

function address(name, chosen) {
  const hash = "#" + name + (chosen ? "/" + encodeURIComponent(chosen) : "");
  if (location.hash !== hash) history.replaceState(null, "", hash);
}

for (const button of at("tabs").children) {
  button.onclick = () => { history.pushState(null, "", "#" + button.dataset.page); goTo(); };
}
window.onhashchange = window.onpopstate = goTo;
window.addEventListener("DOMContentLoaded", goTo);
look();
