"use strict";
// A tail asks twice a second for what has passed; nobody looks while nobody asks.
const TAIL_LINES = 300, MOST_LINES = 5000, TAIL_MS = 500;
const tailName = String(Math.random()).slice(2);
let watched = null, tailTimer = 0, seen = 0, leftOut = 0;

function tailLine(...parts) {
  const line = document.createElement("div");
  line.append(...parts);
  const box = at("tail"), follows = box.scrollTop + box.clientHeight > box.scrollHeight - 30;
  box.append(line);
  if (!follows && box.childElementCount < MOST_LINES) return;  // somebody reads further up
  while (box.childElementCount > TAIL_LINES) box.firstChild.remove();
  if (follows) box.scrollTop = box.scrollHeight;
}

function tailMessage(message) {
  const name = document.createElement("b");
  name.textContent = message.subject + " ";
  const headers = Object.entries(message.headers).map(([key, values]) => key + ": " + values.join(", ")).join("; ");
  const body = message.text === undefined ? message.size + " bytes" : message.text;
  tailLine(name, (headers ? "[" + headers + "] " : "") + body + (message.cut ? " …" : ""));
}

function tailState(text, good) { at("tailing").className = good ? "quiet good" : "quiet bad"; show("tailing", "● " + text); }

async function follow() {
  if (!watched) return;
  try {
    const found = await act("tail", watched);
    found.messages.forEach(tailMessage);
    seen += found.seen; leftOut += found.left_out;
    if (found.left_out) tailLine("… " + found.left_out + " left out");
    tailState(short(seen) + " seen, " + short(leftOut) + " left out", true);
  } catch (error) {
    tailState(error.message, false);
    if (error.message !== UNREACHABLE) { stopTail(); return; }  // who is refused has to change something first
  }
  tailTimer = setTimeout(follow, TAIL_MS);
}

function stopTail() {
  clearTimeout(tailTimer);
  watched = null;
  show("follow", "Watch");
}

at("watch").onsubmit = (event) => {
  event.preventDefault();
  const subject = at("subject").value, account = at("tail-account").value || "$G";
  const isSame = watched && watched.subject === subject && watched.account === account;
  stopTail();
  if (isSame) { tailState("stopped", true); return; }
  watched = { subject, account, name: tailName };
  seen = leftOut = 0;
  show("follow", "Stop");
  follow();
};
at("subject").oninput = () => { if (watched) show("follow", at("subject").value === watched.subject ? "Stop" : "Watch"); };
at("clear").onclick = () => at("tail").replaceChildren();
at("publish").onsubmit = async (event) => {
  event.preventDefault();
  const subject = at("to").value, payload = at("payload").value;
  try {
    const done = await act("publish", { account: at("publish-account").value || "$G", subject, payload });
    at("published").className = "said good";
    show("published", "sent " + done.size + " bytes to " + subject + ", taken by " + (done.taken || "nobody"));
  } catch (error) {
    at("published").className = "said bad"; show("published", "not sent: " + error.message);
  }
};
