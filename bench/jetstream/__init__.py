"""JetStream side by side: publishing into streams, reading them, and what a store costs."""
