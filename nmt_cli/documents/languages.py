"""The languages that a document declares, compared with the languages of the model."""

from __future__ import annotations

from collections.abc import Iterable

from nmt_cli.formats.characters import Characters
from nmt_cli.text.language_codes import primary


def unlike(declared: Iterable[str], source_lang: str) -> str | None:
    """Return the first language that a document declares and the model does not translate from, or None."""
    return next((code for code in declared if code.strip() and primary(code) != primary(source_lang)), None)


def refuse_mixture(document: Characters, place: int, name: str, declared: str, target_lang: str | None) -> None:
    """Refuse a document that keeps translations in another language; `name` is what declares it, at `place`.

    A document without a language is in the model's, and regions make no difference.

    Raises:
        InputError: the translations that stay are in another language.
    """
    if declared.strip() and target_lang is not None and primary(declared) != primary(target_lang):
        document.refuse(
            place,
            f"its {name} is {declared.strip()} and it has translations, but the model translates into {target_lang}. "
            f"Two languages would stand in one file. Correct {name} if it is wrong, take the translations out, or "
            "replace them with --overwrite",
        )
