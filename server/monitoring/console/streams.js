"use strict";
const SEARCHED = 50;
let chosenStream = "", nextSeq = 0;

const streamsAccount = () => at("streams-account").value || "$G";

const span = (seconds) => {
  if (seconds === null) return "";
  if (seconds <= 0) return "now";
  return seconds < 120 ? short(seconds) + " s" : seconds < 7200 ? short(seconds / 60) + " min" : short(seconds / 3600) + " h";
};

pages.streams = async () => {
  const account = streamsAccount();
  if (!facts.jetstream) { show("streams-shown", "· JetStream is off"); facts = {}; return; }
  const found = await get("console/streams?account=" + encodeURIComponent(account));
  const rate = ratesOf("streams " + account, new Map(found.streams.map((one) => [one.name, one.state.last_seq])));
  show("streams-shown", found.total > found.streams.length ? "· the first " + found.streams.length + " of " + found.total : found.total ? "" : "· there are none");
  fill("stream-list", ["name", "subjects", "messages", "bytes", "per second", "first", "last", "last stored", "consumers", "storage", "retention"],
    found.streams.map(({ name, subjects, state, storage, retention, mirror }) => [name, mirror ? "mirror of " + mirror : (subjects || []).join(", "),
      state.messages, short(state.bytes) + "B", short(rate.get(name)), state.first_seq, state.last_seq, moment(state.last_ts),
      state.consumer_count, storage, retention]), chooseStream, chosenStream);
  if (chosenStream && !found.streams.some(({ name }) => name === chosenStream)) chooseStream("");
  if (chosenStream) await showConsumers(account);
};

async function showConsumers(account) {
  const found = await get("console/consumers?account=" + encodeURIComponent(account) + "&stream=" + encodeURIComponent(chosenStream));
  show("consumers-shown", found.total ? "" : "· there are none");
  fill("consumers", ["name", "lag", "pending", "redelivered", "waiting", "next due", "bound", "filter", "acks", "acknowledged to", "state"],
    found.consumers.map((one) => [one.name, one.num_pending, one.num_ack_pending, one.num_redelivered, one.num_waiting,
      span(one.next_due_s), one.bound.join(", "), one.filters.join(", "), one.ack_policy, one.ack_floor.stream_seq,
      one.is_paused ? "paused" : ""]), chooseConsumer, chosenConsumer);
}

function chooseStream(name) {
  chosenStream = name;
  if (page === "streams") address("streams", name);
  for (const id of ["stream", "stream-messages", "stream-config", "purge-box"]) at(id).hidden = !name;
  show("stream-name", name); show("searched", ""); show("purged", "");
  at("found").replaceChildren(); at("search-next").disabled = true;
  chooseConsumer("");
  if (name && page === "streams") look();
}

// JSON is folded to a line; the whole of it, indented, is one click away.
function messageBox(message) {
  const box = document.createElement("div"), name = document.createElement("b");
  box.className = "message";
  name.textContent = message.subject;
  box.append(message.seq ? message.seq + "  " + moment(message.time) + "  " : "", name);
  for (const [key, values] of Object.entries(message.headers)) {
    const line = document.createElement("div");
    line.textContent = key + ": " + values.join(", ");
    box.append(line);
  }
  const body = message.text === undefined ? message.base64 : message.text;
  let whole = body;
  try { whole = message.cut ? body : JSON.stringify(JSON.parse(body), null, 2); } catch { /* no JSON */ }
  const text = document.createElement("pre");
  text.textContent = whole + (message.cut ? "\n… " + message.size + " bytes in all" : "");
  if (whole.includes("\n") || whole.length > 160) {
    const folded = document.createElement("details"), head = document.createElement("summary");
    head.textContent = body.slice(0, 160);
    folded.append(head, text);
    box.append(folded);
  } else box.append(text);
  return box;
}

async function search(seq) {
  const asked = { account: streamsAccount(), stream: chosenStream, subject: at("search-subject").value,
    since: seq ? "" : at("search-since").value, seq: seq || Number(at("search-seq").value || 0), count: SEARCHED };
  try {
    if (!Number.isInteger(asked.seq)) throw new Error("a sequence is a whole number");
    const found = await act("messages", asked);
    at("found").replaceChildren(...found.messages.map(messageBox));
    nextSeq = found.next;
    at("search-next").disabled = !nextSeq; at("searched").className = "said";
    show("searched", found.messages.length ? "" : "none from there on; the stream has " + found.first_seq + " to " + found.last_seq);
  } catch (error) {
    at("searched").className = "said bad"; show("searched", error.message);
  }
}

choices.streams = (name) => { if (name !== chosenStream) chooseStream(name); };
at("streams-account").onchange = () => chooseStream("");
at("search").onsubmit = (event) => { event.preventDefault(); search(0); };
at("search-next").onclick = () => search(nextSeq);
// What is edited is the stream, or the consumer that is chosen, or a new one.
let chosenConsumer = "", isNewConsumer = false;
function chooseConsumer(name) {
  chosenConsumer = name; isNewConsumer = false;
  at("config-text").value = "";
  show("config-of", name ? "consumer " + name : "stream " + chosenStream); show("configured", "");
  if (token && chosenStream) loadConfig();
}

function loadConfig() {
  isNewConsumer = false;
  const path = chosenConsumer ? "CONSUMER.INFO." + chosenStream + "." + chosenConsumer : "STREAM.INFO." + chosenStream;
  const stream = chosenStream, consumer = chosenConsumer;
  return attempt("configured", async () => {
    const { config } = await api(streamsAccount(), path);
    if (!isNewConsumer && stream === chosenStream && consumer === chosenConsumer) at("config-text").value = JSON.stringify(config, null, 2);
    return "";
  });
}

at("config-load").onclick = loadConfig;
at("config-new").onclick = () => {
  chosenConsumer = ""; isNewConsumer = true;
  show("config-of", "a new consumer"); show("configured", "");
  at("config-text").value = JSON.stringify({ durable_name: "workers", ack_policy: "explicit", filter_subject: "" }, null, 2);
};
at("config").onsubmit = (event) => {
  event.preventDefault();
  attempt("configured", async () => {
    let config;
    try { config = JSON.parse(at("config-text").value); } catch (error) { throw new Error("this is no JSON: " + error.message); }
    if (!isNewConsumer && !chosenConsumer) {
      await api(streamsAccount(), "STREAM.UPDATE." + chosenStream, config);
      return "saved stream " + chosenStream;
    }
    const name = chosenConsumer || config.durable_name || config.name;
    await api(streamsAccount(), "CONSUMER.DURABLE.CREATE." + chosenStream + "." + name,
      { stream_name: chosenStream, config, action: isNewConsumer ? "create" : "update" });
    look();
    return "saved consumer " + name;
  });
};
at("create").onsubmit = (event) => {
  event.preventDefault();
  attempt("created", async () => {
    const name = at("create-name").value, subjects = at("create-subjects").value.split(",").map((one) => one.trim()).filter(Boolean);
    await api(streamsAccount(), "STREAM.CREATE." + name, { name, subjects, storage: at("create-storage").value,
      retention: at("create-retention").value, max_msgs: Number(at("create-max").value || -1) });
    look();
    return "created " + name;
  });
};

// The name has to be written out for what cannot be taken back.
function named() {
  if (at("purge-name").value !== chosenStream) throw new Error("write the name of the stream, " + chosenStream + ", to be sure");
  at("purge-name").value = "";
}

at("purge").onsubmit = (event) => {
  event.preventDefault();
  attempt("purged", async () => {
    named();
    const filter = at("purge-subject").value;
    const done = await api(streamsAccount(), "STREAM.PURGE." + chosenStream, filter ? { filter } : undefined);
    return "purged " + done.purged + " messages";
  });
};
at("delete-stream").onclick = () => attempt("purged", async () => {
  named();
  await api(streamsAccount(), "STREAM.DELETE." + chosenStream);
  show("created", "deleted " + chosenStream); chooseStream(""); look();
  return "";
});
asking("delete-consumer", () => chosenConsumer && "Really delete " + chosenConsumer + "?", () => attempt("purged", async () => {
  const name = chosenConsumer;
  await api(streamsAccount(), "CONSUMER.DELETE." + chosenStream + "." + name);
  chooseConsumer(""); look();
  return "deleted consumer " + name;
}));
