"""Links to other servers and between workers: leaf nodes, routes, and what may cross them."""
