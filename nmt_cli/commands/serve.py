"""`nmt serve`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from nmt_cli.assembly.preloading import start_loading_torch
from nmt_cli.commands.options import Checkpoint, Device, DirectionDirs, Precision, Workers, WorkerThreads
from nmt_cli.serve.limits import Limits
from nmt_cli.system.errors import InputError

ACCESS, LIMITS = "Access", "Limits"


def serve(
    model: DirectionDirs = None,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, metavar="N", help="0 takes a free port.")] = 5000,
    watch: Annotated[bool, typer.Option("--watch", help="Load newer checkpoints while the server runs.")] = False,
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            "--api-key-file", metavar="FILE", rich_help_panel=ACCESS,
            help="Answer only clients that send one of the keys in FILE, which has one on each line.",
        ),
    ] = None,
    public: Annotated[
        bool,
        typer.Option(
            "--public", rich_help_panel=ACCESS,
            help="Let anybody who reaches the address of --host translate, without a key.",
        ),
    ] = False,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            "--cors", metavar="ORIGIN", rich_help_panel=ACCESS,
            help="Let web pages from ORIGIN, such as https://example.org, use this server. May be repeated.",
        ),
    ] = None,
    trust_proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--trust-proxy", metavar="ADDRESS", rich_help_panel=ACCESS,
            help="Trust a proxy at this address or network, such as 172.16.0.0/12, to name the client "
            "(X-Forwarded-For). May be repeated. Proxies on this machine are always trusted.",
        ),
    ] = None,
    root_path: Annotated[
        str,
        typer.Option(
            "--root-path", metavar="PATH", rich_help_panel=ACCESS,
            help="The path under which a proxy shows this server, such as /mt.",
        ),
    ] = "",
    log_text: Annotated[
        bool,
        typer.Option(
            "--log-text", rich_help_panel=ACCESS, help="Log the texts that clients send. Files are never logged."
        ),
    ] = False,
    max_characters: Annotated[
        int,
        typer.Option(
            "--max-characters", min=1, metavar="N", rich_help_panel=LIMITS,
            help="Most characters in one request. Requests with alternatives or alignment may have 20,000, files more.",
        ),
    ] = 500_000,
    max_sentences: Annotated[
        int,
        typer.Option(
            "--max-sentences", min=1, metavar="N", rich_help_panel=LIMITS,
            help="Most sentences that may wait in one direction. Further requests are told to try again later.",
        ),
    ] = 50_000,
    requests_per_minute: Annotated[
        int,
        typer.Option(
            "--requests-per-minute", min=0, metavar="N", rich_help_panel=LIMITS,
            help="Most requests of one client in a minute. 0 is no limit.",
        ),
    ] = 0,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: WorkerThreads = None,
    workers: Workers = None,
    checkpoint: Checkpoint = "best",
) -> None:  # fmt: skip
    """Serve models over HTTP, with the API of LibreTranslate and a web page.

    The server offers every direction of every --model. Two models for one direction are refused. SIGTERM or Ctrl-C
    stops the server after it has answered the requests it has.

    Example: nmt serve --model runs/demo
    """
    _need_libraries()
    start_loading_torch()
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.assembly.server import serve_models

    serve_models(
        ModelOptions(model or (), checkpoint, device, threads, precision, workers),
        host,
        port,
        api_key_file=api_key_file,
        is_public=public,
        sites=cors or (),
        limits=Limits(characters=max_characters, sentences=max_sentences, requests_per_minute=requests_per_minute),
        watches=watch,
        logs_text=log_text,
        proxies=trust_proxy or (),
        root_path=root_path,
    )


def _need_libraries() -> None:
    """Raise `InputError` if libraries of the extra `serve` are not installed, before anything imports them."""
    if any(find_spec(name) is None for name in ("starlette", "python_multipart", "h11", "sentencex")):
        raise InputError("nmt serve needs Starlette, h11 and sentencex: pip install 'nmt-cli[serve]'")
