"""What the connections of one server share, and the decisions about them."""
