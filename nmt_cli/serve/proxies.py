"""Takes the address of a client, and the scheme and host that it has asked, from a proxy that is trusted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.types import ASGIApp, Receive, Scope, Send

_HOST = re.compile(r"(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")


class ProxyHeadersMiddleware:
    """ASGI middleware that believes the forwarding headers of the proxies in `trusted` (addresses or networks).

    Each proxy adds the address that it sees to the end of the header `X-Forwarded-For`. So the client is the last
    address there that is no trusted proxy; the addresses before it may be made up. The scheme comes from the header
    `X-Forwarded-Proto`, and the host from `X-Forwarded-Host`.
    """

    def __init__(self, app: ASGIApp, trusted: Sequence[str]) -> None:
        self._app, self._trusted = app, [ip_network(one) for one in trusted]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if scope["type"] == "http" and client is not None and self._trusts(client[0]):
            headers = [(name, value.decode("latin-1")) for name, value in scope["headers"]]

            def forwarded(header: bytes) -> list[str]:
                return ",".join(value for name, value in headers if name == header).split(",")

            scope = dict(scope)
            hops = 0
            for host in map(_without_port, reversed(forwarded(b"x-forwarded-for"))):
                if not host:
                    break
                hops += 1
                scope["client"] = (host, 0)
                if not self._trusts(host):
                    break

            def of_client(header: bytes) -> str:
                # Some proxies add the value that they see, as they add the address, and others leave one for all.
                values = forwarded(header)
                return values[-min(max(hops, 1), len(values))].strip().lower()

            if (scheme := of_client(b"x-forwarded-proto")) in ("http", "https"):
                scope["scheme"] = scheme
            if _HOST.fullmatch(asked := of_client(b"x-forwarded-host")):
                others = [(name, value) for name, value in scope["headers"] if name != b"host"]
                scope["headers"] = [(b"host", asked.encode("ascii")), *others]
        await self._app(scope, receive, send)

    def _trusts(self, host: str) -> bool:
        try:
            address: IPv4Address | IPv6Address = ip_address(host)
        except ValueError:
            return False
        if isinstance(address, IPv6Address):
            address = address.ipv4_mapped or address
        return any(address in network for network in self._trusted)


def _without_port(given: str) -> str:
    """Return `host` from an address of the form `host`, `host:port`, `[host]` or `[host]:port`."""
    given = given.strip()
    if given.startswith("["):
        return given[1:].partition("]")[0]
    return given.partition(":")[0] if given.count(":") == 1 else given
