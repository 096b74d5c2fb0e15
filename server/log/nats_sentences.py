"""nats-server's sentences for midge's events.

Test harnesses and dashboards search for these sentences. An event without one is written as its
name and fields. A `{name}` is replaced by the event's field of that name.
"""

from __future__ import annotations

SENTENCES = {
    # The life of the process.
    "server_starting": "Starting {program}",
    "version_announced": "  Version:  {version}",
    "compatibility_announced": "  Protocol: {version}",
    "name_announced": "  Name:     {name}",
    "id_announced": "  ID:       {server_id}",
    "configuration_used": "Using configuration file: {file} ({digest})",
    "client_listener_started": "Listening for client connections on {address}",
    "certificate_out_of_date": "TLS certificate {file} is out of date: {dates}",
    "tls_required": "TLS required for client connections",
    "websocket_listener_started": "Listening for websocket clients on {url}",
    "monitoring_started": "Starting http monitor on {address}",
    "monitoring_tls_started": "Starting https monitor on {address}",
    "server_interpreted": "{text}",
    "server_ready": "Server is ready",
    "server_failed": "{error}",
    "signal_received": 'Trapped "{signal}" signal',
    "shutdown_started": "Initiating Shutdown...",
    "server_stopped": "Server Exiting..",
    "lame_duck_started": "Entering lame duck mode, stop accepting new clients",
    "lame_duck_closing": "Closing existing clients",
    "configuration_reloaded": "Reloaded server configuration ({digest})",
    "configuration_refused": "Failed to reload server configuration: {error}",
    "log_reopened": "File log re-opened",
    "log_rotated": 'Rotated log, backup saved as "{file}"',
    "log_purged": 'Purged log file "{file}"',
    "setting_doubtful": "{text}",
    "plaintext_passwords_configured": "Plaintext passwords detected, use nkeys or bcrypt",
    "trace_impossible": (
        'Destination "{destination}" is not valid, won\'t be able to trace events'
    ),
    "jetstream_missed": "{subject} of account {account} went to nobody: {hint}",
    "jetstream_store_temporary": (
        "Temporary storage directory used, data could be lost on system reboot"
    ),
    "option_reloaded": "Reloaded: {option}",
    "pid_file_failed": "Could not write pid file: {error}",
    "ports_file_failed": "Error writing ports file: {error}",
    # Connections.
    "client_connected": "Client connection created",
    "client_closed": "Client connection closed: {reason}",
    "client_refused": "maximum connections exceeded",
    "accept_failed": "Temporary Client Accept Error ({error}), sleeping {delay_s}s",
    "slow_consumer_closed": "Slow Consumer Detected: {reason}",
    "slow_consumer_stays": "Slow Consumer State: WriteDeadline of {deadline_s}s exceeded",
    "stale_connection_closed": "Stale Client Connection - Closing",
    "protocol_error": "Client parser ERROR: {error}",
    "error_sent": "Client was told: {error}",
    "authentication_failed": "authentication error",
    "auth_callout_refused": "{error}",
    "authentication_timed_out": "Authentication Timeout",
    "tls_handshake_failed": "TLS handshake error: {error}",
    "proxy_header_refused": "Error reading PROXY protocol header from {peer}: {error}",
    "permission_denied": "{error}",
    # Links to other servers.
    "route_listener_started": "Listening for route connections on {address}",
    "route_connected": "Route connection created",
    "route_closed": "Router connection closed: {reason} - Remote: {server}",
    "route_connect_failed": (
        "Error trying to connect to route (attempt {attempt}): {remote}: {error}"
    ),
    "route_error": "Route Error: {error}",
    "route_peer_error": "Route Error: the other server says {error}",
    "cluster_name_changed": "Cluster name updated to {name}",
    "leafnode_listener_started": "Listening for leafnode connections on {address}",
    "leafnode_connected": "Leafnode connection created for account: {account}",
    "leafnode_closed": "Leafnode connection closed: {reason}",
    "leafnode_connect_failed": (
        'Error trying to connect as leafnode to remote server "{remote}"'
        " (attempt {attempt}): {error}"
    ),
    "leafnode_error": "Leafnode Error: {error}",
    "leafnode_peer_error": "Leafnode Error: the other server says {error}",
    # Protocol traces.
    "protocol_received": "<<- [{line}]",
    "payload_received": "<<- MSG_PAYLOAD: [{payload}]",
    "protocol_sent": "->> [{line}]",
    "payload_sent": "->> MSG_PAYLOAD: [{payload}]",
    "subscription_removed": "<-> [DELSUB {sid}]",
}

ADDITIONS = {"authentication_failed": ("offered", " - {offered}")}
"""Text appended to a sentence when the field of that name is not empty."""
