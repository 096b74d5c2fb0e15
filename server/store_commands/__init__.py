"""`midge store`: what is done to a store directory while no server uses it."""
