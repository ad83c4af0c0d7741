"""Takes the address of a client and the scheme of its request from a proxy that is trusted."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.types import ASGIApp, Receive, Scope, Send


class ProxyHeadersMiddleware:
    """ASGI middleware that believes the forwarding headers of the proxies in `trusted` (addresses or networks).

    Each proxy adds the address that it sees to the end of the header `X-Forwarded-For`. So the client is the last
    address there that is no trusted proxy; the addresses before it may be made up. The scheme comes from the header
    `X-Forwarded-Proto`.
    """

    def __init__(self, app: ASGIApp, trusted: Sequence[str]) -> None:
        self._app, self._trusted = app, [ip_network(one) for one in trusted]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if scope["type"] == "http" and client is not None and self._trusts(client[0]):
            headers = [(name, value.decode("latin-1")) for name, value in scope["headers"]]
            hosts = ",".join(value for name, value in headers if name == b"x-forwarded-for").split(",")
            protos = ",".join(value for name, value in headers if name == b"x-forwarded-proto").split(",")
            scope = dict(scope)
            hops = 0
            for host in map(_without_port, reversed(hosts)):
                if not host:
                    break
                hops += 1
                scope["client"] = (host, 0)
                if not self._trusts(host):
                    break
            # Some proxies add the scheme that they see, as they add the address, and others leave one for all.
            scheme = protos[-min(max(hops, 1), len(protos))].strip().lower()
            if scheme in ("http", "https"):
                scope["scheme"] = scheme
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
