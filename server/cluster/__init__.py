"""Routes: this server as a member of a cluster, a full mesh of links between its servers."""
