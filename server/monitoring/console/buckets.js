"use strict";
let bucket = "", editedRevision = null;

const bucketsAccount = () => at("buckets-account").value || "$G";
const keySubject = (key) => "$KV." + bucket + "." + key;

pages.buckets = async () => {
  if (!facts.jetstream) { show("buckets-shown", "· JetStream is off"); facts = {}; return; }
  const found = await get("console/streams?account=" + encodeURIComponent(bucketsAccount()));
  const buckets = found.streams.filter(({ name }) => name.startsWith("KV_"));
  show("buckets-shown", buckets.length ? "" : "· there are none");
  fill("bucket-list", ["bucket", "keys", "values", "bytes", "history", "ttl", "last change"],
    buckets.map(({ name, state, limits }) => [name.slice(3), state.num_subjects || 0, state.messages, short(state.bytes) + "B",
      limits.max_msgs_per_subject, limits.max_age ? span(limits.max_age) : "", moment(state.last_ts)]), chooseBucket, bucket);
};

function chooseBucket(name) {
  bucket = name; editedRevision = null;
  if (page === "buckets") address("buckets", name);
  at("history").replaceChildren(); show("history-of", ""); show("edited", ""); show("keys-shown", "");
  at("edit-key").value = at("edit-value").value = "";
  if (name && token) listKeys();
}

async function listKeys() {
  at("keys").replaceChildren();
  try {
    if (!bucket) throw new Error("choose a bucket");
    const pattern = at("keys-pattern").value || ">";
    const found = await act("keys", { account: bucketsAccount(), stream: "KV_" + bucket, subject: keySubject(pattern) });
    const start = keySubject("").length;
    const gone = (one) => one.headers["KV-Operation"] || one.headers["Nats-Marker-Reason"];
    fill("keys", ["key", "value", "revision", "changed", "kept"], found.keys.map((one) => [one.subject.slice(start),
      gone(one) ? "(" + gone(one)[0].toLowerCase() + ")" : one.text === undefined ? one.size + " bytes" : one.text.slice(0, 80),
      one.seq, moment(one.time), one.count]), chooseKey);
    at("keys-shown").className = "quiet";
    show("keys-shown", found.total > found.keys.length ? "· the first " + found.keys.length + " of " + found.total : "");
  } catch (error) {
    at("keys-shown").className = "quiet bad"; show("keys-shown", "· " + error.message);
  }
}

async function chooseKey(key) {
  at("edit-key").value = key;
  await attempt("edited", async () => {
    const found = await act("messages", { account: bucketsAccount(), stream: "KV_" + bucket, subject: keySubject(key), count: 64 });
    at("history").replaceChildren(...found.messages.map(messageBox).reverse());
    show("history-of", "of " + key);
    const last = found.messages.at(-1);
    editedRevision = last ? { key, seq: last.seq } : null;
    at("edit-value").value = last && last.text !== undefined ? last.text : "";
    if (last && last.text === undefined) return "this value is no text: what you put replaces it";
    if (last && last.cut) return "this value is longer than what is shown: what you put replaces it";
    return "";
  });
}

// Refused when somebody else has changed the key since it was shown.
async function change(key, payload, headers) {
  if (!bucket) throw new Error("choose a bucket");
  const shown = editedRevision && editedRevision.key === key ? editedRevision.seq : 0;
  const expected = { "Nats-Expected-Last-Subject-Sequence": String(shown) };
  const said = await act("request", { account: bucketsAccount(), subject: keySubject(key), payload, headers: { ...headers, ...expected } });
  const ack = JSON.parse(said.text);
  if (ack.error && ack.error.err_code === 10071) throw new Error("not changed: the key has another revision by now; choose it again");
  if (ack.error) throw new Error(ack.error.description);
  editedRevision = { key, seq: ack.seq };
  await listKeys();
  return ack.seq;
}

at("buckets-account").onchange = () => { bucket = ""; at("keys").replaceChildren(); };
at("keys-search").onsubmit = (event) => { event.preventDefault(); listKeys(); };
at("edit").onsubmit = (event) => {
  event.preventDefault();
  attempt("edited", async () => "revision " + await change(at("edit-key").value, at("edit-value").value, {}));
};
const editedKey = () => at("edit-key").value;
asking("delete", () => editedKey() && "Really delete " + editedKey() + "?", () =>
  attempt("edited", async () => "deleted, as revision " + await change(editedKey(), "", { "KV-Operation": "DEL" })));
asking("purge-key", () => editedKey() && "Really purge " + editedKey() + "?", () =>
  attempt("edited", async () => "purged, as revision " + await change(editedKey(), "", { "KV-Operation": "PURGE", "Nats-Rollup": "sub" })));
asking("delete-bucket", () => bucket && "Really delete " + bucket + "?", () => attempt("edited", async () => {
  const name = bucket;
  await api(bucketsAccount(), "STREAM.DELETE.KV_" + name);
  chooseBucket(""); look();
  return "deleted bucket " + name;
}));
at("new-bucket").onsubmit = (event) => {
  event.preventDefault();
  attempt("bucket-made", async () => {
    const name = at("bucket-name").value;
    await api(bucketsAccount(), "STREAM.CREATE.KV_" + name, { name: "KV_" + name, subjects: ["$KV." + name + ".>"],
      max_msgs_per_subject: Number(at("bucket-history").value || 1), discard: "new", allow_rollup_hdrs: true, deny_delete: true, allow_direct: true });
    look();
    return "created " + name;
  });
};
window.addEventListener("unlocked", () => { if (bucket) listKeys(); });
choices.buckets = (name) => { if (name && name !== bucket) chooseBucket(name); };
