"""The keys of a map `tls`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from midge.server.config.nats_conf.sections import (
    Handler,
    IgnoredKey,
    Key,
    Section,
    UnsupportedKey,
    read_map,
    timeout,
)
from midge.server.config.nats_conf.values import (
    boolean,
    choice,
    duration,
    entries,
    fail,
    items,
    limit,
    listed,
    seconds,
    show,
    text,
    texts,
)
from midge.server.config.security import INSECURE_CIPHER_SUITES

if TYPE_CHECKING:
    from midge.server.config.nats_conf.parser import ConfNode


def _handshake_first(section: Section, node: ConfNode) -> None:
    """Read true, false, "auto", or the time that "auto" waits."""
    if isinstance(node.value, bool):
        section.put("handshake_first", "on" if node.value else "off", node)
        return
    word = text(node)
    if word.lower() in ("true", "on", "false", "off"):
        section.put("handshake_first", "on" if word.lower() in ("true", "on") else "off", node)
        return
    if word.lower() in ("auto", "auto_fallback"):
        section.put("handshake_first", "auto", node)
    elif (fallback_s := duration(node, word)) > 0:
        section.put("handshake_first", "auto", node)
        section.put("handshake_first_fallback_s", fallback_s, node)
    else:
        section.put("handshake_first", "on", node)


def _min_version(node: ConfNode) -> str:
    if text(node) not in ("1.2", "1.3"):
        fail(node, f"unsupported TLS minimum version {node.value!r}, expected '1.2' or '1.3'")
    return text(node)


_STORES = "there are no certificate stores of Windows"
_LOST_SUITES = frozenset(
    {
        "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
        "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_RSA_WITH_RC4_128_SHA",
    }
)
"""Suites that OpenSSL no longer has, and that nats-server still takes."""
_INSECURE_SUITES = _LOST_SUITES | INSECURE_CIPHER_SUITES.keys()
"""Suites that are taken with `allow_insecure_cipher_suites` only."""


def not_empty(node: ConfNode) -> list[str]:
    """Return a list of texts that has one at least."""
    if not items(node):
        fail(node, "error parsing tls config, the list cannot be empty")
    return listed(node)


def _cipher_suites(section: Section, node: ConfNode) -> None:
    """Read the suites; those that OpenSSL does not have are left out, if others are there."""
    offered = []
    for name in not_empty(node):
        if name in _LOST_SUITES:
            section.note(node, f'cipher suite "{name}" is not offered')
        else:
            offered.append(name)
    section.put("cipher_suites", offered, node)


def _check_suites(node: ConfNode) -> None:
    """Refuse insecure suites without the key that allows them."""
    given = {name.lower(): entry for name, entry in entries(node).items()}
    allows = given.get("allow_insecure_cipher_suites")
    if "cipher_suites" not in given or (allows is not None and allows.value is True):
        return
    insecure = [name for name in listed(given["cipher_suites"]) if name in _INSECURE_SUITES]
    if insecure:
        need = "configured without 'allow_insecure_cipher_suites' option set"
        fail(node, f"insecure cipher suites {need}: {', '.join(insecure)}")


def _curves(section: Section, node: ConfNode) -> None:
    """Read the curves; Python's TLS takes one."""
    for name in not_empty(node):
        if name not in ("X25519", "CurveP256", "CurveP384", "CurveP521", "X25519MLKEM768"):
            fail(node, f"unrecognized curve preference {name}")
    section.put("curve_preferences", listed(node), node)
    if len(listed(node)) > 1 or "X25519MLKEM768" in listed(node):
        section.note(node, 'field "curve_preferences" has no effect: OpenSSL chooses the curve')


def _pinned(node: ConfNode) -> list[str]:
    for one in listed(node):
        if not re.fullmatch(r"[0-9A-Fa-f]{64}", one):
            fail(node, f"'pinned_certs' key {one[:80]} does not look like hex-encoded sha256")
    return listed(node)


def _known_urls(section: Section, node: ConfNode) -> None:
    """Read whether the hosts in certificates are checked, which is for routes only."""
    if section.path[:1] == ("cluster",):
        whole = Section(section.result, section.result.values, ())
        whole.put("cluster.check_known_urls", boolean(node), node)
    elif boolean(node):
        fail(node, "verify_cert_and_check_known_urls not supported in this context")


def read_certs(node: ConfNode) -> list[dict[str, str]]:
    """Read certificates with their keys, of which a client gets the one for its server name."""
    pairs = [{name: text(entry) for name, entry in entries(one).items()} for one in items(node)]
    if any(pair.keys() != {"cert_file", "key_file"} for pair in pairs):
        fail(node, "both 'cert_file' and 'key_file' options are required, and no other")
    return pairs


TLS: dict[str, Handler] = {
    "cert_file": Key("cert_file", text),
    "key_file": Key("key_file", text),
    "ca_file": Key("ca_file", text),
    "verify": Key("verify", boolean),
    "verify_and_map": Key("verify_and_map", boolean),
    "timeout": timeout("timeout_s"),
    "cipher_suites": _cipher_suites,
    "min_version": Key("min_version", _min_version),
    "handshake_first": _handshake_first,
    "first": _handshake_first,
    "immediate": _handshake_first,
    "connection_rate_limit": Key("connection_rate_limit", limit),
    "pinned_certs": Key("pinned_certs", _pinned),
    "verify_cert_and_check_known_urls": _known_urls,
    "curve_preferences": _curves,
    "insecure": IgnoredKey("certificates are checked", boolean),
    "certs": Key("certs", read_certs),
    "certificates": Key("certs", read_certs),
    "allow_insecure_cipher_suites": Key("allow_insecure_cipher_suites", boolean),
    "ocsp_peer": UnsupportedKey("OCSP"),
    "cert_store": UnsupportedKey("certificate stores"),
    "cert_match": IgnoredKey(_STORES, text, ()),
    "cert_match_by": IgnoredKey(_STORES, choice("subject", "issuer", "thumbprint"), ()),
    "cert_match_skip_invalid": IgnoredKey(_STORES, boolean),
    "ca_certs_match": IgnoredKey(_STORES, texts, ()),
}


def _client_certs(section: Section, node: ConfNode) -> None:
    """Read certificates, of which the other server is shown the first."""
    for name, path in next(iter(read_certs(node)), {}).items():
        section.put(name, path, node)


_OF_LISTENERS = "it is for a listener"

CLIENT_TLS: dict[str, Handler] = {
    # Keys without a use for a client have the checks that a listener has.
    **{
        name: IgnoredKey(_OF_LISTENERS, one.read, ())
        for name, one in TLS.items()
        if isinstance(one, Key | IgnoredKey)
    },
    **{name: one for name, one in TLS.items() if isinstance(one, UnsupportedKey)},
    "cipher_suites": IgnoredKey("OpenSSL chooses the cipher suite", not_empty, ()),
    "curve_preferences": TLS["curve_preferences"],
    "verify_cert_and_check_known_urls": TLS["verify_cert_and_check_known_urls"],
    "cert_file": Key("cert_file", text),
    "key_file": Key("key_file", text),
    "certs": _client_certs,
    "certificates": _client_certs,
    "ca_file": Key("ca_file", text),
    "insecure": Key("insecure", boolean),
    "verify": IgnoredKey(_OF_LISTENERS, boolean),
    "verify_and_map": IgnoredKey(_OF_LISTENERS, boolean),
}
"""The keys of `tls` where this server is the client."""

RESOLVER_TLS: dict[str, Handler] = {
    **CLIENT_TLS,
    "timeout": IgnoredKey("a request takes at most 1.9 s", seconds, ()),
    **dict.fromkeys(
        ("handshake_first", "first", "immediate"), IgnoredKey("HTTPS begins with TLS", show, ())
    ),
}


def read_tls(section: Section, node: ConfNode) -> None:
    """Read a map `tls`.

    nats-server takes one without a certificate, and no handshake succeeds then.
    """
    table, errors = section.table("tls", node), len(section.result.errors)
    read_map(node, table, TLS, "error parsing tls config, unknown field {}")
    if errors == len(section.result.errors):
        _check_suites(node)
    if errors == len(section.result.errors) and not (
        table.values.get("cert_file") or table.values.get("certs")
    ):
        fail(node, "missing 'cert_file' in TLS configuration: no certificate, no handshake")
