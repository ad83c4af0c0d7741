"""`nmt check`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from nmt_cli.commands.options import ConfigFile, Overrides
from nmt_cli.data.pairs import Corpus
from nmt_cli.system.console import warn
from nmt_cli.system.errors import InputError
from nmt_cli.text.language_codes import bleu_tokenizer


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

    The command writes nothing. The exit code is 2 if training would refuse, or `nmt evaluate` a test set. It is 0 if
    there are only warnings.

    Example: nmt check --config configs/multi30k_en_de.yaml
    """
    from nmt_cli.assembly.check import check_all
    from nmt_cli.assembly.check_output import as_text, as_values
    from nmt_cli.assembly.epoch import with_updates
    from nmt_cli.assembly.input_checks import check_text_files, warn_of_exchanged_sides
    from nmt_cli.assembly.speed import with_speed
    from nmt_cli.assembly.tokenizers import trained_tokenizers
    from nmt_cli.config.idle import idle_keys
    from nmt_cli.config.loader import load_config, with_absolute_paths

    given = load_config(config, set_ or (), check_files=check_text_files)
    for line in idle_keys(given):
        warn(line)
    data = given.data
    pairs = [*data.train, *([data.dev] if data.dev else []), *data.test]
    warn_of_exchanged_sides([Corpus(p.source, p.target) for p in pairs], (data.source_lang, data.target_lang))
    found = check_all(given, with_absolute_paths(given), trained_tokenizers)
    found = with_updates(found)
    if measure:
        found = with_speed(found)
    language = given.data.target_lang
    tokenize = bleu_tokenizer(language)
    if given.scoring.tokenize is None and tokenize is not None:
        warn(f"scoring.tokenize: BLEU counts words, which {language} does not part by blanks; set it to {tokenize}")
    options = ["--config", str(config), *(word for one in set_ or () for word in ("--set", one))]
    print(json.dumps(as_values(found, options), ensure_ascii=False) if as_json else as_text(found, options))
    if found.problems:
        raise InputError("\n".join(found.problems))
