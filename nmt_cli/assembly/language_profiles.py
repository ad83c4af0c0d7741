"""Letter trigrams of a model's languages, learned from its training text and kept to detect the language of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nmt_cli.data.language_profile import MAX_LINES, REMEDY, LanguageProfile
from nmt_cli.data.lines import decode_line, iter_lines, open_input
from nmt_cli.system.errors import ModelError
from nmt_cli.system.storage import read_json, write_json

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config
    from nmt_cli.experiment import Experiment


def learn_profiles(config: Config) -> dict[str, LanguageProfile]:
    """Return the letter-trigram profile of each language by its code, from its first MAX_LINES training lines.

    Raises:
        InputError: a file of the training text is gone.
    """
    from nmt_cli.data.tokenizer import without_symbols

    profiles = {}
    files: dict[str, dict[str, None]] = {}
    for corpus in config.data.train:
        for language, path in zip(config.data.direction_of(corpus), (corpus.source, corpus.target), strict=True):
            files.setdefault(language, {})[path] = None
    for language, paths in files.items():
        texts: list[str] = []
        for path in paths:
            with open_input(path) as stream:
                for line in iter_lines(stream):
                    texts.append(decode_line(line)[0])
                    if len(texts) >= MAX_LINES:
                        break
            if len(texts) >= MAX_LINES:
                break
        profiles[language] = LanguageProfile.of(without_symbols(texts, config.tokenizer.symbols))
    return profiles


def write_language_profiles(experiment: Experiment, config: Config) -> None:
    """Write the language profiles into the model directory, unless it has them and the training has begun.

    Raises:
        InputError: a file of the training text is gone.
    """
    if experiment.languages_path.exists() and experiment.has_begun:
        return
    profiles = learn_profiles(config)
    write_json(experiment.languages_path, {language: profile.to_json() for language, profile in profiles.items()})


def read_profiles(experiment: Experiment) -> dict[str, LanguageProfile] | None:
    """Return the language profiles in a model directory by language code, or None if it has no such file.

    Raises:
        ModelError: the file is damaged.
    """
    path = experiment.languages_path
    if not path.exists():
        return None
    data = experiment.config.data
    try:
        values = read_json(path)
        return {language: LanguageProfile.from_json(values[language], str(path)) for language in data.languages}
    except KeyError as error:
        raise ModelError(f"{path}: is damaged; {REMEDY}") from error
