"""Code shared by all links to other servers, leaf nodes and routes alike."""
