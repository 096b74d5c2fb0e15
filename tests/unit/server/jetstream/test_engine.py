"""JetStream of a server, from its start to its stop."""

from midge.server.config.options import JetStream, Listen, Options
from midge.server.server import Server


async def test_pages_see_no_jetstream_after_its_stop() -> None:
    options = Options(listen=Listen(port=-1), jetstream=JetStream(enabled=True, in_memory=True))
    server = Server(options)
    await server.start()
    state = server._state
    assert state is not None
    assert state.jetstream is server.jetstream is not None
    await server.stop()
    assert state.jetstream is None
