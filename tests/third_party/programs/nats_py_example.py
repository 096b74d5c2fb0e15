"""Run one of nats-py's own examples, unchanged, against another server than localhost's 4222."""

import re
import runpy
import sys

import nats

url, path = sys.argv[1:3]
connect = nats.connect


async def elsewhere(servers=None, *args, **options):
    return await connect(url, *args, **options)


nats.connect = elsewhere
write = sys.stdout.write
# Differences from run to run: inboxes, times, and which member of a group was chosen.
MASKED = re.compile(
    r"^\t|QSUB [AB]|_INBOX\.[\w.]+|_sid=\d+|0x[0-9a-f]+|\$JS\.ACK\S+|<nats\S+ object[^>]*>"
)
sys.stdout.write = lambda text: write(MASKED.sub("", text))
sys.argv = [path]
sys.path.insert(0, path.rpartition("/")[0])
runpy.run_path(path, run_name="__main__")
