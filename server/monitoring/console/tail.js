"use strict";
// A tail asks twice a second for what has passed; nobody looks while nobody asks.
const TAIL_LINES = 300, MOST_LINES = 5000, TAIL_MS = 500;
const tailName = String(Math.random()).slice(2);
let watched = null, tailTimer = 0, seen = 0, leftOut = 0, isPaused = false, held = [], isFirst = false;

function tailLine(...parts) {
  const line = document.createElement("div");
  line.append(...parts);
  line.hidden = !passes(line);
  const box = at("tail"), follows = box.scrollTop + box.clientHeight > box.scrollHeight - 30;
  box.append(line);
  if (!follows && box.childElementCount < MOST_LINES) return;  // somebody reads further up
  while (box.childElementCount > TAIL_LINES) box.firstChild.remove();
  if (follows) box.scrollTop = box.scrollHeight;
}

const passes = (line) => line.textContent.toLowerCase().includes(at("tail-filter").value.toLowerCase());

function tailMessage(message) {
  const headers = Object.entries(message.headers).map(([key, values]) => key + ": " + values.join(", ")).join("; ");
  const body = message.text === undefined ? message.size + " bytes" : message.text;
  tailLine(node("i", new Date(message.time * 1000).toISOString().slice(11, 23) + " "), node("b", message.subject + " "),
    (message.reply ? "→ " + message.reply + " " : "") + (headers ? "[" + headers + "] " : ""), json(message, body) || body + (message.cut ? " …" : ""));
}

// An object or a list is folded to a line; its indented form is one click away.
function json(message, body) {
  if (message.cut || !/^\s*[[{]/.test(body)) return null;
  try {
    const whole = JSON.stringify(JSON.parse(body), null, 2), box = document.createElement("details");
    box.append(node("summary", body), node("pre", whole));
    return box;
  } catch { return null; }
}

function tailState(text, good) { at("tailing").className = good ? "quiet good" : "quiet bad"; show("tailing", "● " + text); }

async function follow() {
  const asked = watched;
  if (!asked) return;
  try {
    const found = await act("tail", asked);
    if (asked !== watched) return;  // an answer to what was watched before
    // A browser runs a hidden page once a minute, too seldom for the server to keep its tail.
    if (found.has_begun && !isFirst) tailLine("… what came while this page or the server did not run is missing");
    isFirst = false;
    if (isPaused) held = [...held, ...found.messages].slice(-TAIL_LINES);
    else found.messages.forEach(tailMessage);
    seen += found.seen; leftOut += found.left_out;
    if (found.left_out && !isPaused) tailLine("… " + found.left_out + " left out");
    tailState(short(seen) + " seen, " + short(leftOut) + " left out" + (isPaused ? ", paused" : ""), true);
  } catch (error) {
    if (asked !== watched) return;
    tailState(error.message, false);
    if (error.message !== UNREACHABLE) { stopTail(); return; }  // who is refused has to change something first
  }
  tailTimer = setTimeout(follow, TAIL_MS);
}

function stopTail() {
  clearTimeout(tailTimer);
  watched = null;
  show("follow", "Watch");
  at("pause").disabled = true; pause(false);
}

// What passes meanwhile is shown afterwards, its last TAIL_LINES messages.
function pause(wanted) {
  isPaused = wanted;
  at("pause").setAttribute("aria-pressed", String(wanted)); show("pause", wanted ? "Go on" : "Pause");
  if (wanted) return;
  held.forEach(tailMessage);
  held = [];
}

at("pause").onclick = () => pause(!isPaused);
at("tail-filter").oninput = () => { for (const line of at("tail").children) line.hidden = !passes(line); };
at("watch").onsubmit = (event) => {
  event.preventDefault();
  const subject = at("subject").value, account = at("tail-account").value || "$G";
  const isSame = watched && watched.subject === subject && watched.account === account;
  stopTail();
  if (isSame) { tailState("stopped", true); return; }
  watched = { subject, account, name: tailName };
  seen = leftOut = 0;
  isFirst = true;
  show("follow", "Stop"); at("pause").disabled = false;
  tailState("starting", true);  // not the numbers of what was watched before
  follow();
};
at("subject").oninput = () => { if (watched) show("follow", at("subject").value === watched.subject ? "Stop" : "Watch"); };
at("clear").onclick = () => at("tail").replaceChildren();

// What is written in the form, sent by `action`; headers are one a line.
async function sent(action) {
  const headers = {};
  for (const line of at("headers").value.split("\n").filter((one) => one.trim())) {
    const colon = line.indexOf(":");
    if (colon < 1) throw new Error("a header is written as Name: value, not as " + line);
    headers[line.slice(0, colon)] = line.slice(colon + 1).trim();
  }
  return act(action, { account: at("publish-account").value || "$G", subject: at("to").value, payload: at("payload").value, headers });
}

const unsent = (error) => { throw new Error("not sent: " + error.message); };
at("publish").onsubmit = (event) => {
  event.preventDefault();
  at("answer").replaceChildren();
  attempt("published", async () => {
    const done = await sent("publish").catch(unsent);
    return "sent " + done.size + " bytes to " + at("to").value + ", taken by " + (done.taken || "nobody");
  });
};
at("request").onclick = () => {
  const began = performance.now();
  at("answer").replaceChildren();
  attempt("published", async () => {
    const found = await sent("request");
    at("answer").replaceChildren(messageBox({ ...found, subject: "answer to " + at("to").value }));
    return found.size + " bytes after " + found.took_ms.toFixed(2) + " ms in the server, " + Math.round(performance.now() - began) + " ms in this page";
  });
};
pages.messages = () => get("console/facts");  // to notice a server that goes
