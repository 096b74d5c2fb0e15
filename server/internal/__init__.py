"""Publishing and answering by the server itself: the only access to the router without a client."""
