// @nats-io/jetstream: streams, publishes with expectations, pull, ordered and push consumers.
import { connect } from "@nats-io/transport-node";
import {
  AckPolicy, DeliverPolicy, DiscardPolicy, jetstream, jetstreamManager, JetStreamApiError,
  RetentionPolicy, StorageType,
} from "@nats-io/jetstream";

const nc = await connect({ servers: process.argv[2] });
const jsm = await jetstreamManager(nc);
const js = jetstream(nc);

async function failing(what) {
  try {
    await what();
    return "no error";
  } catch (error) {
    return error instanceof JetStreamApiError
      ? `${error.code} ${error.status} ${error.message}`
      : `${error.name} ${error.message}`;
  }
}

await jsm.streams.add({
  name: "ORDERS", subjects: ["orders.>"], allow_direct: true, max_msgs_per_subject: 50,
  discard: DiscardPolicy.Old, storage: StorageType.File, num_replicas: 1,
});
for (let i = 0; i < 100; i++) {
  await js.publish(`orders.${i % 3}`, `order ${i}`, { msgID: `id ${i}` });
}
const again = await js.publish("orders.0", "again", { msgID: "id 99" });
console.log("duplicate", again.duplicate, again.seq);
console.log(await failing(() => js.publish("orders.0", "x", { expect: { lastSequence: 1 } })));
console.log(await failing(() => js.publish("orders.0", "x", { expect: { streamName: "OTHER" } })));
console.log(await failing(() => js.publish("nothing.here", "x", { timeout: 500, retries: 0 })));
console.log(await failing(() => jsm.streams.info("NOPE")));
console.log(await failing(() => jsm.streams.add({ name: "OTHER", subjects: ["orders.1"] })));

const stream = await js.streams.get("ORDERS");
const info = await stream.info(false, { subjects_filter: ">" });
console.log(info.state.messages, info.state.subjects);
console.log((await stream.getMessage({ last_by_subj: "orders.1" })).string());
console.log((await jsm.direct.getMessage("ORDERS", { seq: 5 })).string());
console.log(await failing(() => jsm.direct.getMessage("ORDERS", { seq: 5000 })));
const batch = await jsm.direct.getBatch("ORDERS", { seq: 1, batch: 3, next_by_subj: "orders.2" });
for await (const message of batch) console.log("batch", message.seq, message.string());
const lasts = await jsm.direct.getLastMessagesFor("ORDERS", { multi_last: ["orders.>"] });
for await (const message of lasts) console.log("last", message.subject, message.seq);

await jsm.consumers.add("ORDERS", {
  durable_name: "billing", ack_policy: AckPolicy.Explicit, filter_subject: "orders.1",
  ack_wait: 2_000_000_000, backoff: [100_000_000, 200_000_000], max_deliver: 5,
});
const billing = await js.consumers.get("ORDERS", "billing");
let first = 0;
const fetched = await billing.fetch({ max_messages: 10, expires: 2000 });
for await (const message of fetched) {
  if (message.info.deliveryCount === 1 && first++ === 0) message.nak();
  else await message.ackAck();
}
const state = await billing.info();
console.log("billing", state.num_pending, state.num_ack_pending, state.num_redelivered);
console.log("next", (await billing.next()).info.deliveryCount);
console.log(await billing.consume({ max_messages: 10 }).then(async (messages) => {
  let count = 0;
  for await (const message of messages) {
    message.ack();
    if (++count === 20) break;
  }
  return `consumed ${count}`;
}));

const ordered = await js.consumers.get("ORDERS", { filter_subjects: ["orders.0", "orders.2"] });
let seen = 0;
for await (const message of await ordered.consume()) {
  seen++;
  if (message.info.pending === 0) break;
}
console.log("ordered", seen);

await jsm.consumers.add("ORDERS", {
  durable_name: "pushed", ack_policy: AckPolicy.None, deliver_subject: "push.here",
  deliver_policy: DeliverPolicy.LastPerSubject, filter_subject: "orders.>",
});
const pushed = await js.consumers.getPushConsumer("ORDERS", "pushed");
let left = 3;
for await (const message of await pushed.consume()) {
  console.log("pushed", message.subject, message.seq);
  if (--left === 0) break;
}
console.log(await failing(() => js.consumers.get("ORDERS", "nobody")));
console.log("paused", (await jsm.consumers.pause("ORDERS", "billing", new Date(Date.now() + 60000))).paused);
console.log("resumed", (await jsm.consumers.resume("ORDERS", "billing")).paused);

await jsm.streams.add({
  name: "JOBS", subjects: ["jobs"], retention: RetentionPolicy.Workqueue, allow_msg_ttl: true,
});
await jsm.consumers.add("JOBS", { durable_name: "w", ack_policy: AckPolicy.Explicit });
console.log(await failing(() => jsm.consumers.add("JOBS", { durable_name: "v", ack_policy: AckPolicy.Explicit })));
await js.publish("jobs", "work", { ttl: "1h" });
const job = await (await js.consumers.get("JOBS", "w")).next();
await job.ackAck();
console.log("left", (await jsm.streams.info("JOBS")).state.messages);

await jsm.streams.add({ name: "COPY", mirror: { name: "ORDERS" } });
await jsm.streams.add({ name: "SOURCED", sources: [{ name: "ORDERS", filter_subject: "orders.2" }] });
for (const [name, count] of [["COPY", 100], ["SOURCED", 33]]) {
  while ((await jsm.streams.info(name)).state.messages < count) await new Promise((r) => setTimeout(r, 20));
  console.log(name, count);
}
console.log("purged", (await jsm.streams.purge("ORDERS", { filter: "orders.1", keep: 2 })).purged);
console.log("deleted", await jsm.streams.deleteMessage("ORDERS", 1));
console.log((await jsm.streams.names().next()).sort());
const account = await jsm.getAccountInfo();
console.log(account.streams, account.consumers, account.limits.max_streams);
console.log("gone", await jsm.streams.delete("ORDERS"));
await nc.close();
