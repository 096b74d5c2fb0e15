"""How the types of JetStream's answers and events begin, as `type` in their JSON names them."""

from __future__ import annotations

API = "io.nats.jetstream.api.v1."
ADVISORY = "io.nats.jetstream.advisory.v1."
METRIC = "io.nats.jetstream.metric.v1."
