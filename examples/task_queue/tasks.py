"""A taskiq worker whose queue is a midge server in the same program: no broker to install."""

from taskiq_nats import NATSObjectStoreResultBackend, PullBasedJetStreamBroker


def make_broker(url: str) -> PullBasedJetStreamBroker:
    """Make a broker for tasks, and for their results."""
    results: NATSObjectStoreResultBackend = NATSObjectStoreResultBackend(servers=url)
    broker = PullBasedJetStreamBroker(
        servers=[url], subject="tasks", stream_name="TASKS", durable="workers", queue="workers"
    ).with_result_backend(results)

    @broker.task(task_name="total")
    async def total(prices: list[int]) -> int:
        if not prices:
            raise ValueError("nothing to pay")
        return sum(prices)

    return broker
