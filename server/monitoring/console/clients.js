"use strict";
// Clients, accounts, routes and leaf nodes: the monitoring pages, with rates from one look to the next.
let chosenClient = "", chosenAccount = "";
const clientPages = pager("clients-pager"), subscriptionPages = pager("client-pager"), accountPages = pager("accounts-pager");
const OPEN_SORTS = { cid: "cid", msgs_from: "messages in", msgs_to: "messages out", bytes_from: "bytes in", bytes_to: "bytes out", pending: "pending",
  subs: "subscriptions", idle: "idle time", last: "last activity", uptime: "shortest uptime", rtt: "round trip" };
const CLOSED_SORTS = { stop: "time of the end", reason: "reason", cid: "cid", msgs_from: "messages in", msgs_to: "messages out", uptime: "shortest uptime" };

function offerSorts() {
  const sorts = at("clients-state").value === "closed" ? CLOSED_SORTS : OPEN_SORTS, was = at("clients-sort").value;
  at("clients-sort").replaceChildren(...Object.entries(sorts).map(([value, name]) => new Option(name, value)));
  at("clients-sort").value = Object.hasOwn(sorts, was) && was !== "cid" ? was : Object.keys(sorts)[0];
}

const traffic = (space, entries, key, fields) => fields.map((field) =>
  ratesOf(space + " " + field, new Map(entries.map((one) => [one[key], one[field]]))));

pages.clients = async () => {
  const isClosed = at("clients-state").value === "closed";
  const found = await get("connz", { auth: "1", state: isClosed ? "closed" : "open", sort: at("clients-sort").value,
    search: at("clients-search").value, filter_subject: at("clients-subject").value, ...clientPages.fields() });
  const every = found.connections, [ins, outs] = traffic("clients", every, "cid", ["in_msgs", "out_msgs"]);
  // With a subject the total is that of all; the last page then is the one that is not full.
  const isCut = at("clients-subject").value && !at("clients-search").value;
  clientPages.show(isCut && every.length < PAGE_ROWS ? clientPages.offset + every.length : found.total);
  const own = (c) => [c.cid, c.name || "", c.ip + ":" + c.port, c.account || "$G", c.authorized_user || "",
    ((c.kind === "Leafnode" ? "leaf node" : c.lang || "") + " " + (c.version || "")).trim(), c.subscriptions];
  const heads = ["cid", "name", "address", "account", "user", "language", "subs"];
  if (isClosed) fill("client-list", [...heads, "messages", "reason", "ended"],
    every.map((c) => [...own(c), c.in_msgs + c.out_msgs, c.reason, moment(c.stop)]), chooseClient, chosenClient);
  else fill("client-list", [...heads, "in/s", "out/s", "pending", "rtt", "idle"],
    every.map((c) => [...own(c), short(ins.get(c.cid)), short(outs.get(c.cid)), c.pending_bytes, brief(c.rtt || ""), c.idle]), chooseClient, chosenClient);
  if (chosenClient) await showClient();
};

async function showClient() {
  const cid = chosenClient;
  const [{ connections: [c] }, held] = await Promise.all([
    get("connz", { cid, state: "any", auth: "1" }), get("subsz", { subs: "1", cid, ...subscriptionPages.fields() })]);
  if (cid !== chosenClient) return;
  if (!c) { show("client-name", cid + " is not there"); at("client-facts").replaceChildren(); return; }
  const [ins, outs] = traffic("client " + cid, [c], "cid", ["in_bytes", "out_bytes"]);
  show("client-name", cid + " " + (c.name || ""));
  at("disconnect").hidden = Boolean(c.stop);
  pairs("client-facts", [["address", c.ip + ":" + c.port], ["kind", c.type], ["account", c.account || "$G"], ["user", c.authorized_user],
    ["language", c.lang && c.lang + " " + (c.version || "")], ["TLS", c.tls_version], ["since", moment(c.start)], ["uptime", c.uptime],
    ["ended", moment(c.stop)], ["reason", c.reason], ["round trip", brief(c.rtt || "")], ["idle", c.idle],
    ["pending", short(c.pending_bytes) + "B"], ["messages in", c.in_msgs], ["messages out", c.out_msgs],
    ["bytes in", short(c.in_bytes) + "B, " + short(ins.get(c.cid)) + "B/s"], ["bytes out", short(c.out_bytes) + "B, " + short(outs.get(c.cid)) + "B/s"]]);
  const listed = held.subscriptions_list || [], rate = ratesOf("subscriptions " + cid, new Map(listed.map((s) => [s.sid, s.msgs])));
  subscriptionPages.show(c.stop ? 0 : held.total);
  fill("client-subscriptions", ["subject", "queue", "sid", "messages", "per second"],
    listed.map((s) => [s.subject, s.qgroup || "", s.sid, s.msgs, short(rate.get(s.sid))]));
}

function chooseClient(cid) {
  chosenClient = String(cid); subscriptionPages.offset = 0;
  at("client").hidden = !chosenClient;
  show("disconnected", "");
  if (page === "clients") { address("clients", chosenClient); look(); }
}

filters("clients-filter", clientPages);
at("clients-state").onchange = () => { offerSorts(); at("clients-subject").hidden = at("clients-state").value === "closed"; at("clients-subject").value = ""; };
offerSorts();
choices.clients = (cid) => { if (cid !== chosenClient) chooseClient(cid); };
asking("disconnect", () => "Really disconnect " + chosenClient + "?", () => attempt("disconnected", async () => {
  const done = await act("disconnect", { cid: Number(chosenClient) });
  look();
  return "disconnected " + done.cid;
}));

// Accounts.
pages.accounts = async () => {
  const found = await get("accstatz", { unused: "1" }), part = at("accounts-search").value.toLowerCase();
  const every = found.account_statz.filter((one) => one.acc.toLowerCase().includes(part));
  accountPages.show(every.length);
  const shown = every.slice(accountPages.offset, accountPages.offset + PAGE_ROWS);
  const flat = shown.map((one) => ({ acc: one.acc, received: one.received.msgs, sent: one.sent.msgs }));
  const [ins, outs] = traffic("accounts", flat, "acc", ["received", "sent"]);
  fill("account-list", ["account", "clients", "leafs", "subs", "in", "in/s", "out", "out/s", "bytes", "slow consumers"],
    shown.map((one) => [one.acc, one.conns, one.leafnodes, one.num_subscriptions, one.received.msgs, short(ins.get(one.acc)),
      one.sent.msgs, short(outs.get(one.acc)), short(one.received.bytes + one.sent.bytes) + "B", one.slow_consumers]), chooseAccount, chosenAccount);
  if (chosenAccount) await showAccount();
};

async function showAccount() {
  const name = chosenAccount;
  const [{ account_detail: detail }, stored] = await Promise.all([
    get("accountz", { acc: name }), facts.jetstream ? get("jsz", { acc: name }) : {}]);
  if (name !== chosenAccount) return;
  const used = (stored.account_details || []).find((one) => one.name === name) || {};
  const statistics = detail.sublist_stats;
  show("account-name", name);
  pairs("account-facts", [["system account", detail.is_system ? "yes" : ""], ["clients", detail.client_connections], ["leaf nodes", detail.leafnode_connections],
    ["subscriptions", detail.subscriptions], ["subjects looked up", statistics.num_matches], ["known when looked up", Math.round(100 * statistics.cache_hit_rate) + " %"],
    ["largest fan-out", statistics.max_fanout], ["JetStream", detail.jetstream_enabled ? "enabled" : "not enabled"],
    ["memory stored", used.memory === undefined ? "" : short(used.memory) + "B"], ["file stored", used.storage === undefined ? "" : short(used.storage) + "B"]]);
  for (const part of ["exports", "imports", "mappings"]) if (detail[part]) folded("account-more", part, detail[part]);
}

function chooseAccount(name) {
  chosenAccount = name;
  at("account").hidden = !name; at("account-more").replaceChildren();
  if (page === "accounts") { address("accounts", name); look(); }
}

filters("accounts-filter", accountPages);
choices.accounts = (name) => { if (name !== chosenAccount) chooseAccount(name); };

// Routes and leaf nodes.
pages.links = async () => {
  const [{ routes }, { leafs }] = await Promise.all([get("routez"), get("leafz")]);
  const [routeIns, routeOuts] = traffic("routes", routes, "rid", ["in_msgs", "out_msgs"]);
  fill("route-list", ["rid", "server", "address", "subs", "in/s", "out/s", "in", "out", "pending", "rtt", "uptime", "compression"],
    routes.map((one) => [one.rid, one.remote_name, one.ip + ":" + one.port, one.subscriptions, short(routeIns.get(one.rid)), short(routeOuts.get(one.rid)),
      one.in_msgs, one.out_msgs, one.pending_size, brief(one.rtt), one.uptime, one.compression]));
  const [leafIns, leafOuts] = traffic("leafs", leafs, "id", ["in_msgs", "out_msgs"]);
  fill("leaf-list", ["cid", "server", "role", "account", "address", "subs", "in/s", "out/s", "in", "out", "rtt", "compression"],
    leafs.map((one) => [one.id, one.name, one.is_spoke ? "to a hub" : "from a leaf", one.account, one.ip + ":" + one.port, one.subscriptions,
      short(leafIns.get(one.id)), short(leafOuts.get(one.id)), one.in_msgs, one.out_msgs, brief(one.rtt), one.compression]));
};
