// @nats-io/obj: objects in chunks, digests, links, metadata, watches, seals.
import { connect } from "@nats-io/transport-node";
import { jetstream } from "@nats-io/jetstream";
import { Objm } from "@nats-io/obj";

const nc = await connect({ servers: process.argv[2] });
const objm = new Objm(jetstream(nc));

async function failing(what) {
  try {
    return await what();
  } catch (error) {
    return `${error.name} ${error.message}`;
  }
}

function readable(data) {
  return new ReadableStream({ pull(c) { c.enqueue(data); c.close(); } });
}

const store = await objm.create("files", { description: "of a test" });
const big = new Uint8Array(3_000_000).map((_, i) => i % 251);
const info = await store.put({ name: "big", options: { max_chunk_size: 100_000 } }, readable(big));
console.log(info.size, info.chunks, info.digest);
const blob = await store.getBlob("big");
console.log(blob.length, blob.every((value, i) => value === i % 251));
await store.putBlob({ name: "small", metadata: { one: "two" } }, new TextEncoder().encode("hello"));
const small = await store.info("small");
console.log(small.size, small.metadata, small.digest);
await store.update("small", { name: "renamed", description: "described" });
console.log((await store.info("renamed")).description, await store.info("small"));
await store.link("shortcut", await store.info("renamed"));
console.log(new TextDecoder().decode(await store.getBlob("shortcut")));
console.log((await store.list()).map((one) => one.name).sort());
const watch = await store.watch({ includeHistory: true });
const seen = [];
const watching = (async () => {
  for await (const one of watch) {
    seen.push(`${one.name} ${one.deleted}`);
    if (one.deleted) break;
  }
})();
console.log((await store.delete("big")).purged > 0);
await watching;
console.log(seen);
console.log(await store.get("big"));
const status = await store.status();
console.log(status.bucket, status.description, status.size > 0, status.sealed);
console.log((await store.seal()).sealed);
console.log(await failing(() => store.putBlob({ name: "late" }, new Uint8Array(5))));
for await (const one of objm.list()) console.log("bucket", one.bucket);
console.log(await store.destroy());
await nc.close();
