"""The state that the connections of one server share, and the decisions about connections."""
