// @nats-io/kv: values, revisions, history, watches, keys, purges, limits and time to live.
import { connect } from "@nats-io/transport-node";
import { jetstream } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";

const nc = await connect({ servers: process.argv[2] });
const kvm = new Kvm(jetstream(nc));

async function failing(what) {
  try {
    return await what();
  } catch (error) {
    return `${error.name} ${error.message}`;
  }
}

const kv = await kvm.create("prices", { history: 5, markerTTL: 60_000 });
console.log(await kv.put("apple", "1"), await kv.put("pear", "2"), await kv.put("apple", "3"));
const apple = await kv.get("apple");
console.log(apple.string(), apple.revision, apple.operation);
console.log(await failing(() => kv.create("apple", "4")));
console.log(await failing(() => kv.update("apple", "4", 1)));
console.log(await kv.update("apple", "4", 3), await kv.create("plum", "9"));
console.log(await kv.get("nothing"));
console.log((await kv.get("apple", { revision: 1 })).string());

const watched = [];
const watch = await kv.watch();
const watching = (async () => {
  for await (const entry of watch) {
    watched.push(`${entry.key} ${entry.operation} ${entry.string()} ${entry.revision}`);
    if (watched.length === 6) break;
  }
})();
await kv.delete("pear");
await kv.purge("plum");
await kv.put("fig", "7");
await watching;
console.log(watched);
const history = [];
for await (const entry of await kv.history({ key: "apple" })) history.push(entry.string());
console.log(history);
const keys = [];
for await (const key of await kv.keys()) keys.push(key);
console.log(keys.sort());
console.log(await failing(() => kv.create("pear", "back")));
await kv.purgeDeletes(0);
const status = await kv.status();
console.log(status.bucket, status.values, status.history, status.backingStore, status.streamInfo.state.num_subjects);
console.log(await kv.create("short", "lived", "1s"));
await new Promise((resolve) => setTimeout(resolve, 1500));
console.log((await kv.get("short"))?.operation ?? null);
for await (const one of kvm.list()) console.log("bucket", one.bucket);
console.log(await kv.destroy());
await nc.close();
