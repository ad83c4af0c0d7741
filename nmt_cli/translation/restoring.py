"""Puts back into a translation what the model must not change: unknown words, placeholders and tags."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.data.tokenizer import Tokenizer
from nmt_cli.translation.markup import UNKNOWN, PlainLine, restored_words
from nmt_cli.translation.prefix import Prefix, Restore, restored_after
from nmt_cli.translation.results import Translation


def restored(
    options: DecodingOptions,
    tokenizer: Tokenizer,
    line: PlainLine,
    translations: Sequence[Translation],
    prefix: Prefix | None,
    shown: str,
) -> tuple[Translation, ...]:
    """Return the translations of a line with what the model must not change in its place, which their weights tell.

    `shown` is the prefix as it was given, with its tags. Alignments count copied words, but no tags.
    """
    begun = "" if prefix is None else prefix.text
    if options.copy_unknown and any(UNKNOWN in found.text for found in translations):
        runs = tokenizer.unknown_runs(line.text)
        copied = partial(restored_words, keep_markup=False, copy_unknown=True, unknown_runs=runs)
        plain = PlainLine(line.text, ())
        translations = [
            found.with_words(*_written(copied, plain, found, begun, begun)) if UNKNOWN in found.text else found
            for found in translations
        ]
    if options.keep_markup:
        translations = [found.rewritten(*_written(restored_words, line, found, begun, shown)) for found in translations]
    return tuple(translations)


def _written(restore: Restore, line: PlainLine, found: Translation, prefix: str, shown: str) -> tuple[str, list[int]]:
    """Return the text of a translation with what is put back, and how many words stand for each of its words."""
    if shown:
        return restored_after(prefix, shown, line, found, restore)
    words = found.text.split() if found.weights is None else restore(line, found.text, found.weights)
    text = found.text if words == found.text.split() else " ".join(word for word in words if word)
    return text, [len(word.split()) for word in words]
