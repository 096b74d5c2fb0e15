"""What the server itself publishes and answers: one way to the router for all who are no client."""
