"""`midge store`: checks and imports of a store directory that no server uses."""
