"""Publishing and answering by the server itself: the only way to the router without a client."""
