"""Names of placeholders in a text, compared with a pattern of all of them."""

from __future__ import annotations

import random
import re

import pytest
from document_translators import SPLIT, translator

from nmt_cli.documents.document import translate_page
from nmt_cli.normalization.placeholder_names import NameFinder


def exactly(name: str) -> str:
    """Return a pattern of a name that does not stand within a word."""
    before = r"(?<!\w)" if name[0].isalnum() else ""
    after = r"(?!\w)" if name[-1].isalnum() and not name.startswith("%") else ""
    return before + re.escape(name) + after


@pytest.mark.parametrize("seed", range(5))
def test_names_are_found_as_a_pattern_of_all_of_them_finds_them(seed: int):
    draw = random.Random(seed)
    for _ in range(500):
        names = {"".join(draw.choices("ab%_{$1\u00e9", k=draw.randint(1, 4))) for _ in range(draw.randint(1, 5))}
        text = "".join(draw.choices("ab%_{$1\u00e9 .", k=draw.randint(0, 25)))
        pattern = re.compile("|".join(map(exactly, sorted(names, key=len, reverse=True))))
        found = NameFinder(names)
        assert list(found.spans(text)) == [match.span() for match in pattern.finditer(text)]


def test_no_pattern_is_compiled_for_the_placeholders_of_a_sentence(monkeypatch: pytest.MonkeyPatch):
    def page(name: str) -> str:
        return "<p>" + " ".join(f"dog {{{name}{number}}}" for number in range(40))

    dogs = translator(lambda words: [word.replace("dog", "DOG") for word in words])
    translate_page(page("x"), dogs, SPLIT, target_lang=None)
    compiled: list[str] = []
    compile_ = re._compiler.compile  # type: ignore[attr-defined]

    def compiling(pattern: str, flags: int = 0):
        compiled.append(pattern)
        return compile_(pattern, flags)

    monkeypatch.setattr(re._compiler, "compile", compiling)  # type: ignore[attr-defined]
    assert translate_page(page("y"), dogs, SPLIT, target_lang=None) == page("y").replace("dog", "DOG")
    assert compiled == []
