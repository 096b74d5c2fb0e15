"use strict";
// Object buckets: streams of chunks, and of a description for each object, as nats-server's clients write them.
let store = "", storeObjects = [], chosenObject = "";
const SHOWN_CHUNKS = 200, CHUNK_BYTES = 48 * 1024;

const objectsAccount = () => at("objects-account").value || "$G";
const base64 = (bytes) => btoa(Array.from(bytes, (one) => String.fromCharCode(one)).join(""));
const urlSafe = (text) => text.replaceAll("+", "-").replaceAll("/", "_");
// A description beyond 1 KiB comes cut off; its subject has the name.
function nameIn(subject) {
  try { return new TextDecoder().decode(Uint8Array.from(atob(subject.split(".").pop().replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0))); }
  catch { return subject; }
}
const metaSubject = (name) => "$O." + store + ".M." + urlSafe(base64(new TextEncoder().encode(name)));

pages.objects = async () => {
  if (!facts.jetstream) { show("objects-shown", "· JetStream is off"); facts = {}; return; }
  const found = await get("console/streams", { account: objectsAccount() });
  const stores = found.streams.filter(({ name }) => name.startsWith("OBJ_"));
  show("objects-shown", stores.length ? "" : "· there are none");
  fill("store-list", ["bucket", "messages", "bytes", "storage", "last change"],
    stores.map(({ name, state, storage }) => [name.slice(4), state.messages, short(state.bytes) + "B", storage, moment(state.last_ts)]), chooseStore, store);
};

function chooseStore(name) {
  store = name; storeObjects = [];
  at("object-list").replaceChildren(); show("object-list-shown", "");
  chooseObject("");
  if (page === "objects") address("objects", name);
  if (name && token) listObjects();
}

async function listObjects() {
  try {
    if (!store) throw new Error("choose a bucket");
    const found = await act("keys", { account: objectsAccount(), stream: "OBJ_" + store, subject: "$O." + store + ".M.>" });
    storeObjects = found.keys.flatMap((one) => { try { return [JSON.parse(one.text)]; } catch { return [{ name: nameIn(one.subject), size: "?", chunks: "?" }]; } }).filter((one) => !one.deleted);
    at("object-list-shown").className = "quiet";
    show("object-list-shown", found.total > found.keys.length ? "· the first " + found.keys.length + " of " + found.total : "");
    fill("object-list", ["name", "size", "chunks", "description"],
      storeObjects.map((one) => [one.name, one.size, one.chunks, one.description || ""]), chooseObject, chosenObject);
  } catch (error) {
    at("object-list-shown").className = "quiet bad"; show("object-list-shown", "· " + error.message);
  }
}

function chooseObject(name) {
  chosenObject = name;
  show("object-of", name); at("object-name").value = name; at("object-text").value = "";
  at("object-facts").replaceChildren(); show("object-done", "");
  const info = storeObjects.find((one) => one.name === name);
  if (!info) return;
  folded("object-facts", "description", info);
  attempt("object-done", async () => {
    if (info.chunks > SHOWN_CHUNKS) return info.size + " bytes are more than this page shows";
    const found = await act("messages", { account: objectsAccount(), stream: "OBJ_" + store, subject: "$O." + store + ".C." + info.nuid, seq: 1, count: SHOWN_CHUNKS });
    if (name !== chosenObject) return "";
    if (found.messages.length < info.chunks || found.messages.some((one) => one.cut || one.text === undefined))
      return "not shown: its content is no text, or too long";
    at("object-text").value = found.messages.map((one) => one.text).join("");
    return "";
  });
}

async function stored(subject, payload, headers) {
  const ack = JSON.parse((await act("request", { account: objectsAccount(), subject, payload, headers })).text);
  if (ack.error) throw new Error(ack.error.description);
}

// The text in pieces that each fit a request and end between two characters.
function pieces(text) {
  const found = [];
  let piece = "", size = 0;
  for (const one of text) {
    const more = new TextEncoder().encode(one).length;
    if (size + more > CHUNK_BYTES) { found.push(piece); piece = ""; size = 0; }
    piece += one; size += more;
  }
  return piece ? [...found, piece] : found;
}

const dropChunks = (nuid) => api(objectsAccount(), "STREAM.PURGE.OBJ_" + store, { filter: "$O." + store + ".C." + nuid });

async function putObject(name, text) {
  if (!store) throw new Error("choose a bucket");
  if (!name) throw new Error("an object needs a name");
  if (!crypto.subtle) throw new Error("a browser computes the object's digest only over HTTPS or on localhost");
  const bytes = new TextEncoder().encode(text), digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const nuid = Array.from(crypto.getRandomValues(new Uint8Array(11)), (one) => one.toString(16).padStart(2, "0")).join("");
  const before = storeObjects.find((one) => one.name === name), chunks = pieces(text);
  for (const chunk of chunks) await stored("$O." + store + ".C." + nuid, chunk, {});
  await stored(metaSubject(name), JSON.stringify({ name, bucket: store, nuid, size: bytes.length, chunks: chunks.length,
    mtime: new Date().toISOString(), digest: "SHA-256=" + urlSafe(base64(digest)) }), { "Nats-Rollup": "sub" });
  if (before) await dropChunks(before.nuid);
  await listObjects();
  return "stored " + bytes.length + " bytes in " + chunks.length + " chunks";
}

at("new-store").onsubmit = (event) => {
  event.preventDefault();
  attempt("store-made", async () => {
    const name = at("store-name").value;
    await api(objectsAccount(), "STREAM.CREATE.OBJ_" + name, { name: "OBJ_" + name, subjects: ["$O." + name + ".C.>", "$O." + name + ".M.>"],
      discard: "new", allow_rollup_hdrs: true, allow_direct: true });
    look();
    return "created " + name;
  });
};
at("list-objects").onsubmit = (event) => { event.preventDefault(); listObjects(); };
at("put-object").onsubmit = (event) => {
  event.preventDefault();
  attempt("object-done", () => putObject(at("object-name").value, at("object-text").value));
};
asking("delete-object", () => chosenObject && "Really delete " + chosenObject + "?", () => attempt("object-done", async () => {
  const name = chosenObject, info = storeObjects.find((one) => one.name === name);
  if (!info) throw new Error("choose an object");
  await stored(metaSubject(name), JSON.stringify({ ...info, size: 0, chunks: 0, digest: "", deleted: true }), { "Nats-Rollup": "sub" });
  await dropChunks(info.nuid);
  await listObjects();
  chooseObject("");
  return "deleted " + name;
}));
asking("delete-store", () => store && "Really delete " + store + "?", () => attempt("object-done", async () => {
  const name = store;
  await api(objectsAccount(), "STREAM.DELETE.OBJ_" + name);
  chooseStore(""); look();
  return "deleted bucket " + name;
}));
at("objects-account").onchange = () => { chooseStore(""); look(); };
window.addEventListener("unlocked", () => { if (store) listObjects(); });
choices.objects = (name) => { if (name !== store) chooseStore(name); };
