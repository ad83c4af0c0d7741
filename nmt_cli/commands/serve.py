"""`nmt serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.commands.options import Checkpoint, Device, DirectionDirs, Precision, Threads
from nmt_cli.serve.limits import Keys, Limits

if TYPE_CHECKING:
    pass

ACCESS, LIMITS = "Access", "Limits"


def serve(
    model: DirectionDirs = None,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen at.")] = "127.0.0.1",
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
            help="Let pages of ORIGIN ask this server, such as https://example.org. May be repeated.",
        ),
    ] = None,
    log_text: Annotated[
        bool,
        typer.Option("--log-text", rich_help_panel=ACCESS, help="Write texts to translate to the log, but no files."),
    ] = False,
    max_characters: Annotated[
        int,
        typer.Option(
            "--max-characters", min=1, metavar="N", rich_help_panel=LIMITS,
            help="Most characters of one request. With alternatives or alignment 20,000; a file may have more.",
        ),
    ] = 500_000,
    max_sentences: Annotated[
        int,
        typer.Option(
            "--max-sentences", min=1, metavar="N", rich_help_panel=LIMITS,
            help="Most sentences of a direction that may wait. Beyond that, clients are told to come back.",
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
    threads: Threads = None,
    checkpoint: Checkpoint = "best",
) -> None:  # fmt: skip
    """Serve models over HTTP: the interface of LibreTranslate, and a page for people.

    Each --model is a direction of its own. The server ends with SIGTERM or Ctrl-C, after it has answered what was
    asked.

    Example: nmt serve --model runs/demo
    """
    from nmt_cli.assembly.server import check_address, need_libraries, origin, serve_models

    need_libraries()

    keys = None if api_key_file is None else Keys.read(api_key_file)
    check_address(host, keys, public=public)
    origins = [origin(given) for given in cors or []]
    limits = Limits(characters=max_characters, sentences=max_sentences, requests_per_minute=requests_per_minute)
    loading = {"checkpoint": checkpoint, "device": device, "precision": precision, "threads": threads}
    serve_models(model or [], host, port, keys, limits, loading, origins=origins, watches=watch, logs_text=log_text)
