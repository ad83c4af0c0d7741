"""Whom the server believes who asks."""

from __future__ import annotations

import asyncio

import pytest

from nmt_cli.serve.proxies import ProxyHeadersMiddleware

TRUSTED = ["127.0.0.1", "::1", "172.16.0.0/12"]


def seen(client, headers):
    """Return the client, the scheme and the header Host that the application sees."""
    scopes = []

    async def app(scope, receive, send):
        scopes.append(scope)

    scope = {"type": "http", "client": (client, 1234), "scheme": "http",
             "headers": [(name.encode(), value.encode()) for name, value in headers]}  # fmt: skip
    asyncio.run(ProxyHeadersMiddleware(app, TRUSTED)(scope, None, None))
    return scopes[0]["client"][0], scopes[0]["scheme"], dict(scopes[0]["headers"]).get(b"host", b"").decode()


@pytest.mark.parametrize(
    ("client", "forwarded", "found"),
    [
        ("127.0.0.1", ["203.0.113.5"], "203.0.113.5"),
        ("127.0.0.1", ["203.0.113.5, 172.20.0.3"], "203.0.113.5"),
        ("172.20.0.3", ["10.9.9.9, 203.0.113.5"], "203.0.113.5"),  # the client itself has sent 10.9.9.9
        ("127.0.0.1", ["10.9.9.9", "203.0.113.5"], "203.0.113.5"),
        ("127.0.0.1", ["203.0.113.5:4711"], "203.0.113.5"),
        ("::1", ["[2001:db8::1]:4711"], "2001:db8::1"),
        ("::ffff:127.0.0.1", ["2001:db8::1"], "2001:db8::1"),
        ("127.0.0.1", ["172.16.0.1, 172.16.0.2"], "172.16.0.1"),
        ("127.0.0.1", ["unknown"], "unknown"),
        ("127.0.0.1", [""], "127.0.0.1"),
        ("127.0.0.1", [], "127.0.0.1"),
        ("203.0.113.9", ["203.0.113.5"], "203.0.113.9"),  # no proxy of ours
        ("172.32.0.1", ["203.0.113.5"], "172.32.0.1"),
    ],
)
def test_the_client_is_the_last_address_that_no_trusted_proxy_has(client, forwarded, found):
    assert seen(client, [("x-forwarded-for", value) for value in forwarded])[0] == found


def test_only_a_trusted_proxy_says_that_the_client_asks_over_https():
    assert seen("127.0.0.1", [("x-forwarded-proto", "https")])[1] == "https"
    assert seen("127.0.0.1", [("x-forwarded-proto", "javascript")])[1] == "http"
    assert seen("203.0.113.9", [("x-forwarded-proto", "https")])[1] == "http"


@pytest.mark.parametrize(
    ("forwarded", "protos", "found"),
    [
        ("203.0.113.5, 172.20.0.3", "https, http", "https"),  # each of two proxies says how it was asked
        ("203.0.113.5, 172.20.0.3", "http, https", "http"),
        ("203.0.113.5, 172.20.0.3", "https", "https"),
        ("10.9.9.9, 203.0.113.5", "http, https", "https"),  # the client itself has sent the first of each
    ],
)
def test_the_scheme_is_what_the_proxy_says_that_the_client_has_asked(forwarded, protos, found):
    assert seen("127.0.0.1", [("x-forwarded-for", forwarded), ("x-forwarded-proto", protos)])[1] == found


@pytest.mark.parametrize(
    ("client", "forwarded", "hosts", "found"),
    [
        ("127.0.0.1", "203.0.113.5", "mt.example.org", "mt.example.org"),
        ("127.0.0.1", "203.0.113.5", "mt.example.org:8443", "mt.example.org:8443"),
        ("127.0.0.1", "203.0.113.5", "[2001:db8::1]:443", "[2001:db8::1]:443"),
        ("127.0.0.1", "203.0.113.5, 172.20.0.3", "mt.example.org, inner", "mt.example.org"),  # two proxies
        ("127.0.0.1", "203.0.113.5", "evil.example, mt.example.org", "mt.example.org"),  # the client has sent the first
        ("127.0.0.1", "203.0.113.5", "a/b@c", "inner:5000"),
        ("127.0.0.1", "203.0.113.5", "", "inner:5000"),
        ("203.0.113.9", "203.0.113.5", "mt.example.org", "inner:5000"),
    ],
)
def test_the_host_is_what_a_trusted_proxy_says_that_the_client_has_asked(client, forwarded, hosts, found):
    headers = [("host", "inner:5000"), ("x-forwarded-for", forwarded), ("x-forwarded-host", hosts)]
    assert seen(client, headers)[2] == found
