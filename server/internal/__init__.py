"""Publishing and answering by the server itself: the only access to the router without a client.

The system account, JetStream and the embedded server use it. The services themselves live there.
"""
