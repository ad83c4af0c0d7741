"""The HTTP side of the server: routes, API keys, limits, the headers of every answer, and errors as JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt_cli.serve.engine_interface import Busy, Cancellation, RequestTooLarge
from nmt_cli.serve.limits import Budget, Keys, RateLimiter
from nmt_cli.serve.requests import Fields, RequestRefused, client_of, fields_of, read_body
from nmt_cli.serve.service import Service
from nmt_cli.system.console import log
from nmt_cli.system.errors import InputError, ModelError, place_of
from nmt_cli.translation.pool import TaskCancelled, WorkersDied
from nmt_cli.version import __version__

Result = TypeVar("Result")
PAGE = {
    "/": ("serve/page.html", "text/html; charset=utf-8"),
    "/page.css": ("serve/page.css", "text/css; charset=utf-8"),
    "/page.js": ("serve/page.js", "text/javascript; charset=utf-8"),
    "/engine.js": ("serve/engine.js", "text/javascript; charset=utf-8"),
    "/server_engine.js": ("serve/server_engine.js", "text/javascript; charset=utf-8"),
    "/attention_words.js": ("plots/attention_words.js", "text/javascript; charset=utf-8"),
}
"""The files of the web page: by URL path, the path in the package `nmt_cli` and the content type."""
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
MAX_PIECE_BYTES = 65_536
"""Largest piece of an answer's body in bytes; the next piece is sent when the client has taken the one before."""
Handler = Callable[[Request], Awaitable[Response]]


class App:
    """The web application, which offers the methods of `Service` at the addresses of LibreTranslate."""

    def __init__(self, service: Service, keys: Keys | None, *, logs_text: bool = False, root_path: str = "") -> None:
        """Make an application that answers requests by the methods of `service`.

        Args:
            service: translates, detects languages and so on.
            keys: the API keys that are accepted; None if no key is needed.
            logs_text: True to write the texts of requests to the log.
            root_path: the beginning of the server's URL paths behind a proxy, such as `/mt`; empty for none.
        """
        self.service, self.limits = service, service.limits
        self._keys, self._logs_text, self._root_path = keys, logs_text, root_path
        self._rate = RateLimiter(self.limits.requests_per_minute)
        self._bytes = Budget(self.limits.bytes_in_flight, self.limits.bytes_of_client)
        self._requests = Budget(self.limits.requests, self.limits.requests)
        self._threads = ThreadPoolExecutor(self.limits.requests, thread_name_prefix="nmt-request")

    def close(self) -> None:
        """Shut down the threads that handle requests, without waiting for requests in work."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def asgi(self, origins: list[str]) -> ASGIApp:
        """Return the ASGI application for a server; pages of the sites `origins` may send requests to it too (CORS)."""
        routes = [Route(path, self._static(path), methods=["GET"]) for path in PAGE]
        for path, answer in {
            "/languages": self._languages,
            "/frontend/settings": self._settings,
            "/spec": self._spec,
            "/health": self._health,
            "/metrics": self._metrics,
            "/download_file/{name}": self._download,
        }.items():
            routes.append(Route(path, answer, methods=["GET"]))
        for path, work in {
            "/translate": self._translate,
            "/detect": self._detect,
            "/translate_file": self._translate_file,
        }.items():
            routes.append(Route(path, self._limited_handler(work), methods=["POST"]))
        handlers = {HTTPException: _http_error, RequestRefused: _refusal, Exception: _failure}
        inner: ASGIApp = Starlette(routes=routes, exception_handlers=handlers)
        if origins:
            from starlette.middleware.cors import CORSMiddleware

            inner = CORSMiddleware(inner, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["*"])
        return _OuterMiddleware(inner, self.service, {route.path for route in routes}, self._root_path)

    # Every request that costs something ----------------------------------------------------------------------------

    def _limited_handler(self, work: Callable[[Request, Fields], Awaitable[Response]]) -> Handler:
        async def handle(request: Request) -> Response:
            client = client_of(request)
            is_admitted = self._admit_by_headers(request)
            try:
                body = await read_body(request, self.limits, self._bytes)
                if not self._requests.take(1, client):  # only now: bodies that come slowly hold nobody up
                    raise RequestRefused(503, "the server is busy; try again in a moment", retry_after=1)
                try:
                    fields = await self._in_thread(fields_of, request, body, self.limits)
                    del body
                    if not is_admitted:
                        self._admit(client, fields.values.get("api_key") or _bearer(request))
                    return await work(request, fields)
                finally:
                    self._requests.give_back(1, client)
            finally:
                self._bytes.give_back(getattr(request.state, "taken", 0), client)

        return handle

    def _admit_by_headers(self, request: Request) -> bool:
        """Return True if no API key is needed or the headers have a valid one, and count the request (rate limit).

        Otherwise return False and count nothing, because the body, which is read later, may have a key.

        Raises:
            RequestRefused: too many requests have come from this address or with this key.
        """
        if self._keys is None:
            self._check_rate_limit(client_of(request))
            return True
        key = _bearer(request)
        if not key or not self._keys.has(key):
            return False
        self._check_rate_limit(f"key {key}")
        return True

    def _admit(self, client: str, given: Any) -> None:
        """Check the API key `given`, from the body or the headers of a request, and count the request (rate limit).

        Raises:
            RequestRefused: the key is missing or wrong, or too many requests have come with it.
        """
        assert self._keys is not None
        if not isinstance(given, str) or not self._keys.has(given):
            self._check_rate_limit(client)  # a right key from the same address is let in: others may share it
            if not given:
                raise RequestRefused(400, "Please contact the server operator to get an API key")
            raise RequestRefused(403, "Invalid API key")
        self._check_rate_limit(f"key {given}")

    def _check_rate_limit(self, client: str) -> None:
        """Count a request of a client: an IP address, or `key` and the API key, such as `key abc`.

        Raises:
            RequestRefused: the client has sent more requests per minute than it may.
        """
        if wait := self._rate.take_token(client):
            raise RequestRefused(429, "Slowdown: too many requests; try again later", retry_after=wait)

    async def _in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Run `work` in another thread, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def _run_cancellable(self, request: Request, work: Callable[[Cancellation], Result]) -> Result:
        """Run `work` in another thread, and return its result; the work is cancelled when the client goes away.

        Raises:
            RequestRefused: the server is busy, the request is wrong or too large, or workers have died while they
                translated it.
            ModelError: the model cannot be used.
        """
        cancellation = Cancellation()
        watcher = asyncio.ensure_future(_watch_disconnect(request, cancellation))
        try:
            return await self._in_thread(work, cancellation)
        except Busy as busy:
            raise RequestRefused(503, str(busy), retry_after=busy.retry_after) from None
        except RequestTooLarge as error:
            raise RequestRefused(413, f"Invalid request: {error}") from None
        except TaskCancelled:
            raise RequestRefused(503, "the request was cancelled") from None
        except WorkersDied as error:
            raise RequestRefused(500, f"Cannot translate text: {error}") from None
        except InputError as error:
            if isinstance(error, ModelError):
                raise
            raise RequestRefused(400, f"Invalid request: {error}") from None
        finally:
            cancellation.set()
            watcher.cancel()

    # Answers --------------------------------------------------------------------------------------------------------

    async def _translate(self, request: Request, fields: Fields) -> Response:
        def answer(cancellation: Cancellation) -> Response:
            task = self.service.task(fields, cancellation)
            if self._logs_text:
                log(f"text: {json.dumps(task.texts, ensure_ascii=False)}")
            # Written here, because the JSON of many weights takes a while.
            return JSONResponse(self.service.translate(task, cancellation))

        return await self._run_cancellable(request, answer)

    async def _detect(self, request: Request, fields: Fields) -> Response:
        return JSONResponse(await self._run_cancellable(request, lambda _: self.service.detect(fields)))

    async def _translate_file(self, request: Request, fields: Fields) -> Response:
        def answer(cancellation: Cancellation) -> tuple[str, list[str]]:
            return self.service.translate_file(self.service.file_task(fields, cancellation), cancellation)

        name, warnings = await self._run_cancellable(request, answer)
        told = {"warnings": warnings} if warnings else {}
        address = f"{_origin(request)}{self._root_path}/download_file/{quote(name)}"
        return JSONResponse({"translatedFileUrl": address, **told})

    async def _download(self, request: Request) -> Response:
        name = request.path_params["name"]
        content = self.service.file(name)
        shown = name.partition(".")[2]
        plain = shown.encode("ascii", errors="replace").decode().replace("?", "_")
        disposition = f'attachment; filename="{plain}"'
        if plain != shown:
            disposition += f"; filename*=UTF-8''{quote(shown)}"
        headers = {"content-disposition": disposition}
        return Response(content, media_type="application/octet-stream", headers=headers)

    async def _languages(self, _: Request) -> Response:
        return JSONResponse(self.service.directions.languages())

    async def _settings(self, _: Request) -> Response:
        return JSONResponse(self.service.settings())

    async def _health(self, _: Request) -> Response:
        problem = await asyncio.to_thread(self.service.problem)  # requests may keep all other threads
        if problem is None:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "failed", "error": f"translation has stopped working: {problem}"}, 503)

    async def _spec(self, request: Request) -> Response:
        text = resources.files("nmt_cli").joinpath("serve/spec.json").read_text(encoding="utf-8")
        spec = json.loads(text)
        spec["info"]["version"] = __version__
        scheme, _, host = _origin(request).partition("://")
        spec["host"], spec["basePath"], spec["schemes"] = host, self._root_path or "/", [scheme]
        return JSONResponse(spec)

    async def _metrics(self, request: Request) -> Response:
        if self._keys is not None and not self._keys.has(_bearer(request)):
            self._check_rate_limit(client_of(request))
            raise RequestRefused(403, "Invalid API key")
        text = await asyncio.to_thread(self.service.metrics_text)  # requests may keep all other threads
        return Response(text, media_type="text/plain; version=0.0.4")

    def _static(self, path: str) -> Handler:
        name, kind = PAGE[path]
        content = resources.files("nmt_cli").joinpath(name).read_bytes()

        async def answer(_: Request) -> Response:
            return Response(content, headers={"content-type": kind, "cache-control": "no-cache"})

        return answer


def _origin(request: Request) -> str:
    """Return the scheme and host of the server as the client sees them, such as `https://example.org`.

    Raises:
        RequestRefused: the header Host is no address.
    """
    try:
        return f"{request.url.scheme}://{request.url.netloc}"
    except ValueError:
        raise RequestRefused(400, "Invalid request: the header Host is not an address") from None


def _bearer(request: Request) -> str:
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer":
        return ""
    try:
        return key.strip().encode("latin-1").decode("utf-8")  # as the bytes came
    except UnicodeDecodeError:
        return key.strip()


async def _watch_disconnect(request: Request, cancellation: Cancellation) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    cancellation.set()


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestRefused)
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    if error.status in (408, 413, 415):
        headers["connection"] = "close"  # what still comes of the body is not read
    return JSONResponse({"error": str(error)}, error.status, headers)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _failure(_: Request, __: Exception) -> Response:
    return JSONResponse({"error": "Cannot translate text: the server failed"}, 500)


def _pieces(message: Message) -> Iterator[Message]:
    """Yield an ASGI message, split into several if its body is larger than `MAX_PIECE_BYTES` bytes."""
    body = message.get("body", b"")
    last = max(0, (len(body) - 1) // MAX_PIECE_BYTES * MAX_PIECE_BYTES)
    for start in range(0, last, MAX_PIECE_BYTES):
        yield {**message, "body": body[start : start + MAX_PIECE_BYTES], "more_body": True}
    yield {**message, "body": body[last:]} if last else message


def _normalize_path(path: str, root_path: str) -> str:
    """Return a path in the form of the routes: without `root_path`, double slashes, and a slash at the end.

    Clients that join addresses themselves ask for `//translate/`, and some proxies pass on the whole path, with
    `root_path` at its beginning.
    """
    plain = "/" + "/".join(part for part in path.split("/") if part)
    if root_path and f"{plain}/".startswith(f"{root_path}/"):
        return plain.removeprefix(root_path) or "/"
    return plain


class _OuterMiddleware:
    """ASGI middleware around all others: counts and logs requests, adds headers, and shows no traceback to clients."""

    def __init__(self, app: ASGIApp, service: Service, paths: set[str], root_path: str) -> None:
        self._app, self._service, self._paths, self._root_path = app, service, paths, root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if self._root_path and scope["path"] == self._root_path:  # the page's files have relative addresses
            await RedirectResponse(f"{self._root_path}/")(scope, receive, send)
            return
        began, status = monotonic(), 0
        scope = {**scope, "path": _normalize_path(scope["path"], self._root_path)}

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], *HEADERS]}
            for piece in _pieces(message):
                await send(piece)

        try:
            await self._app(scope, receive, send_on)
        except Exception as error:
            log(f"error: {place_of(error)}")
            if not status:
                await (await _failure(Request(scope), error))(scope, receive, send_on)
        path = scope["path"]  # what a client makes up may hold text, and is not logged
        known = path if path in self._paths else "/download_file" if path.startswith("/download_file/") else "other"
        self._service.metrics.count_request(known, status, monotonic() - began)
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "OPTIONS", "POST") else "-"
        log(f"{method} {known} {status} {monotonic() - began:.3f} s")
