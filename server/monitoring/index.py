"""`/`: links to the pages."""

from collections.abc import Sequence
from html import escape

_PAGES = {
    "varz": "General",
    "jsz": "JetStream",
    "connz": "Connections",
    "accountz": "Accounts",
    "accstatz": "Account statistics",
    "subsz": "Subscriptions",
    "routez": "Routes",
    "leafz": "Leaf nodes",
    "gatewayz": "Gateways",
    "healthz": "Health",
    "metrics": "Prometheus metrics",
}

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>midge</title>
<style>
body {{ font: 16px/1.6 system-ui, sans-serif; margin: 2.5rem; color: #1b2430 }}
a {{ color: #14539a; text-decoration: none }} a:hover {{ text-decoration: underline }}
code {{ color: #667; font-size: 0.8em; margin-left: 0.6em }}
</style></head>
<body>
<h1>midge</h1>
<p>Monitoring of a server that answers as nats-server {version} does.</p>
<ul>
{items}
</ul>
</body>
</html>
"""


def index_page(version: str, more: Sequence[str] = ()) -> str:
    """Return the page; `more` are paths to list first."""
    pages = {path.strip("/"): path.strip("/").capitalize() for path in more} | _PAGES
    items = "\n".join(
        f'<li><a href="./{path}">{escape(title)}</a><code>/{path}</code></li>'
        for path, title in pages.items()
    )
    return _PAGE.format(version=escape(version), items=items)
