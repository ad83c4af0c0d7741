"""`nmt check`."""

from __future__ import annotations

from typing import Annotated

import typer

from nmt_cli.commands.options import ConfigFile, Overrides


def check(
    config: ConfigFile,
    set_: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for programs.")] = False,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure/--no-measure", help="Train on made-up text for a few seconds, to say how long training takes."
        ),
    ] = True,
) -> None:
    """Check a configuration and its text before training, and say what memory, time and quality to expect.

    The command writes nothing. The exit code is 2 if nmt train or nmt evaluate would stop with an error, and 0 if
    there are only warnings.

    Example: nmt check --config configs/multi30k_en_de.yaml
    """
    from nmt_cli.assembly.preflight import check_configuration

    check_configuration(config, set_ or (), as_json=as_json, measures=measure)
