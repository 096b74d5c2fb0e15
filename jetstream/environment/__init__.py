"""What JetStream is handed for the outside world: time, and where its messages go."""
