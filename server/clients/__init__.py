"""Client connections: the channel, the commands, back-pressure, fair turns, keepalive."""
