"""Several processes that serve clients as one server: a parent, and workers linked by a mesh."""
