"""Leaf nodes: links to other servers, over which each gets what it has told interest in."""
