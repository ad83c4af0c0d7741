"""The server of `nmt serve`: workers that search, and HTTP in front of them."""

from __future__ import annotations

import ipaddress
import re
import signal
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nmt_cli.assembly.language_profiles import learn_profiles, read_profiles
from nmt_cli.assembly.model_options import named_models
from nmt_cli.documents.sentences import splitter
from nmt_cli.experiment import Experiment
from nmt_cli.serve.app import App
from nmt_cli.serve.backend import Engine, TranslationBackend
from nmt_cli.serve.directions import Directions
from nmt_cli.serve.limits import Keys
from nmt_cli.serve.metrics import Metrics
from nmt_cli.serve.model_reload import WatchedModel, Watcher
from nmt_cli.serve.server import bind_socket, resolve_address, serve_until_signal, terminate_self
from nmt_cli.serve.service import Service
from nmt_cli.serve.texts import Direction
from nmt_cli.system.console import format_count, log, warn
from nmt_cli.system.errors import InputError, Interrupted, NmtError
from nmt_cli.system.workers import import_and_call, launcher_of, num_workers

if TYPE_CHECKING:
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.data.language_profile import LanguageProfile
    from nmt_cli.serve.limits import Limits


def serve_models(
    models: ModelOptions, host: str, port: int, *, api_key_file: Path | None, is_public: bool, sites: Sequence[str],
    limits: Limits, watches: bool, logs_text: bool, proxies: Sequence[str] = (), root_path: str = "",
) -> None:  # fmt: skip
    """Answer requests over HTTP until a signal ends the server.

    Args:
        models: the models to serve, each in all its directions.
        host: the address to listen at.
        port: the port to listen at; 0 takes a free one.
        api_key_file: a file of keys, of which a client must send one, or None.
        is_public: anybody who reaches the address may translate, without a key.
        sites: origins of pages that may ask this server.
        limits: limits on the requests of clients.
        watches: newer checkpoints are loaded while the server runs.
        logs_text: the texts of requests are logged.
        proxies: addresses and networks of proxies, besides this machine, that are trusted to name the client.
        root_path: the path under which a proxy shows this server.

    Raises:
        InputError: the address, a key, a site, a proxy or a model is wrong, or others could reach the server without a
            key although `is_public` is false.
        Interrupted: Ctrl-C ended it.
        NmtError: the search keeps failing.
    """
    keys = None if api_key_file is None else Keys.read(api_key_file)
    _check_address(host, keys, is_public=is_public)
    origins, root_path = [_origin(site) for site in sites], _root_path(root_path)
    _check_proxies(proxies)
    served = [model.of_each_direction() for model in named_models(models.directories)]
    experiments = [one for directions in served for one in directions]
    for experiment in experiments:
        _ = experiment.config  # each may be no model, which is said before its checkpoints are looked for
    listening = bind_socket(host, port)
    with listening:
        seen = [_model_version(directions, models.checkpoint) for directions in served]
        # Anew, without what they have read: a worker reads for itself.
        own = [[Experiment(one.directory, one.direction) for one in directions] for directions in served]
        loading_options = replace(models, threads=None).loading_options
        build = partial(import_and_call, "nmt_cli.assembly.served_work", "served_work", own, loading_options)
        search = TranslationBackend(
            launcher_of(build, threads=models.threads),
            len(experiments),
            workers=models.workers or num_workers(models.threads or 1),
            max_waiting=limits.sentences,
            on_failure=terminate_self,
        )
        with closing(search):
            profiles: dict[str, LanguageProfile] = {}
            for experiment in experiments:
                profiles |= _profiles(experiment)
            directions = Directions(list(map(_direction, experiments, search.engines)), profiles)
            metrics = Metrics()
            service = Service(directions, limits, metrics, search.problem, needs_key=keys is not None)
            app = App(service, keys, logs_text=logs_text, root_path=root_path)
            watched = [
                _watched_model(search, *model, models.checkpoint) for model in enumerate(zip(served, seen, strict=True))
            ]
            watcher = Watcher(watched, metrics) if watches else None
            shown = f"[{host}]" if ":" in host else host
            address = f"http://{shown}:{listening.getsockname()[1]}"
            number = serve_until_signal(
                app.asgi(origins),
                listening,
                limits,
                on_ready=lambda: log(f"serving {_direction_codes(directions)} at {address}"),
                on_shutdown=search.end_when_stuck,
                proxies=proxies,
            )
            if watcher is not None:
                watcher.close()
        app.close()
    if search.has_failed:
        raise NmtError("translation has stopped working; restart the server")
    log("stopped; all requests were answered")
    if number == signal.SIGINT:
        raise Interrupted("", number)


def _check_address(host: str, keys: Keys | None, *, is_public: bool) -> None:
    """Refuse a host that is no address, or that others can reach without a key unless `is_public`."""
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
        resolve_address(host, 0)
    if not is_loopback and keys is None and not is_public:
        raise InputError(
            f"--host {host}: others can reach this address; give --api-key-file FILE, or --public if anybody may "
            "translate here"
        )


def _check_proxies(proxies: Sequence[str]) -> None:
    """Refuse a proxy that is neither an IP address nor a network."""
    for given in proxies:
        try:
            ipaddress.ip_network(given)
        except ValueError as error:
            raise InputError(
                f"--trust-proxy {given}: must be an address or a network, such as 172.16.0.0/12 ({error})"
            ) from None


def _root_path(given: str) -> str:
    """Return the value of --root-path with one slash before each part and none at the end; `InputError` if unfit."""
    if not re.fullmatch(r"[\w/.~%-]*", given, re.ASCII) or {".", ".."} & {*given.split("/")}:
        raise InputError(f"--root-path {given}: must be the beginning of a path, such as /mt")
    return "".join(f"/{part}" for part in given.split("/") if part)


def _origin(given: str) -> str:
    """Return the origin of a site as browsers send it, such as https://example.org; `InputError` if it is none."""
    if given in ("*", "null"):  # all sites, and pages from disk
        return given
    try:
        parts = urlsplit(given)
    except ValueError:
        parts = urlsplit("")
    is_origin = parts.scheme and parts.netloc and given.isascii() and "@" not in parts.netloc
    if not is_origin or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise InputError(f"--cors {given}: must be the scheme and the host of a site, such as https://example.org")
    usual_port = {"http": ":80", "https": ":443"}.get(parts.scheme, "")
    return f"{parts.scheme}://{parts.netloc.lower().removesuffix(usual_port)}"


def _direction_codes(directions: Directions) -> str:
    """Return the language codes of all directions as text, such as `de-en, en-de`."""
    return ", ".join(f"{direction.source}-{direction.target}" for direction in directions)


def _model_version(directions: Sequence[Experiment], checkpoint: str) -> str:
    """Return a text that changes when a new checkpoint or calibration takes the place of the present one."""
    path = Experiment(directions[0].directory).checkpoints.resolve(checkpoint)
    kept = [one.confidence_path for one in directions if one.confidence_path.is_file()]
    calibrated = "".join(f", calibration of {_change_time(calibration)}" for calibration in kept)
    return f"{path.name} of {_change_time(path / 'model.safetensors')}{calibrated}"


def _change_time(path: Path) -> str:
    """Return when a file was changed last, in local time to the microsecond."""
    return datetime.fromtimestamp(path.stat().st_mtime_ns / 1e9).isoformat(" ", "microseconds")


def _direction(experiment: Experiment, engine: Engine) -> Direction:
    data = experiment.config.data
    return Direction(data.direction.source, data.direction.target, engine, splitter(data.direction.source))


def _watched_model(
    search: TranslationBackend, number: int, model: tuple[Sequence[Experiment], str], checkpoint: str
) -> WatchedModel:
    """Return an object by which a `Watcher` notices newer checkpoints of a model and has them loaded.

    `number` is its index among the models, `model` its directions and the `_model_version` text of what is loaded.
    """
    directions, seen = model
    names = ", ".join(str(one.config.data.direction) for one in directions)
    reload = partial(_reload, search, number, directions)
    return WatchedModel(names, partial(_model_version, directions, checkpoint), reload, seen)


def _reload(search: TranslationBackend, number: int, directions: Sequence[Experiment]) -> None:
    """Have the workers load model `number` anew from its directory.

    Raises:
        InputError: the model no longer has a direction that the server offers.
    """
    directory = directions[0].directory
    now = Experiment(directory).config.data.directions
    if not {one.config.data.direction for one in directions} <= set(now):
        told = ", ".join(f"from {source} to {target}" for source, target in now)
        raise InputError(f"{directory}: translates {told} now; restart the server to serve it")
    search.reload(number)


def _profiles(experiment: Experiment) -> Mapping[str, LanguageProfile]:
    """Return the letter-trigram profiles of a model's languages by code.

    An older model has no file of them, so they are learned from its training text. If that is gone too, warn and return
    an empty mapping.
    """
    kept = read_profiles(experiment)
    if kept is not None:
        return kept
    try:
        found = learn_profiles(experiment.config)
    except InputError as error:
        data = experiment.config.data
        warn(
            f"{experiment.directory}: keeps no profiles of its languages, and its training text is gone, so "
            f"{data.direction.source} and {data.direction.target} are not detected ({error})"
        )
        return {}
    lines = format_count(len(found), "language")
    log(f"{experiment.directory}: keeps no profiles of its languages, so {lines} were learned from its training text")
    return found
