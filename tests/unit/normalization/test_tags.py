"""Tags that are not read: what is read, and where translations get them back."""

from __future__ import annotations

import codecs
import random
import re

import numpy as np
import pytest
from marks import some_or_all

from nmt_cli.demo import phrasebook
from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.normalization.tags import Tags
from nmt_cli.text.edits import word_spans
from nmt_cli.text.translation import Translation
from nmt_cli.text.unit_alignment import Alignment

LINES = [pair.source for pair in phrasebook.generate(seed=3, num_train=600, num_dev=1, num_test=1).train]
STEPS = Normalizer([Tags()])
TAG = re.compile(r"<[^<>]*>")
NAMES = ("b", "i", "a", "p", "color")


def tagged_line(chance: random.Random, *, crosses: bool = False) -> str:
    """A line with nested or crossing elements, and tags alone, beside the words and apart from them."""
    words = chance.choice(LINES).split()
    before: list[list[str]] = [[] for _ in range(len(words) + 1)]
    after: list[list[str]] = [[] for _ in words]

    def enclose(first: int, last: int, depth: int) -> None:
        begin = first
        while begin < last and depth:
            end = chance.randint(begin + 1, last)
            if chance.random() < 0.5:
                name = chance.choice(NAMES)
                before[begin].append(f"<{name}=#F00>" if name == "color" else f"<{name}>")
                enclose(begin, end, depth - 1)
                after[end - 1].append(f"</{name}>")
            begin = end

    enclose(0, len(words), 3)
    if crosses:
        first, end = sorted(chance.sample(range(len(words) + 1), 2)) if len(words) > 1 else (0, 1)
        before[first].append("<u>")
        after[end - 1].insert(0, "</u>")
    for _ in range(chance.choice((0, 0, 1))):
        chance.choice(before).append(chance.choice(("<br/>", "<img src='x y'/>", "<br> ")))
    parts = []
    for number, word in enumerate(words):
        tail = re.search(r"\W*$", word)[0] if chance.random() < 0.5 else ""
        bare = word[: len(word) - len(tail)]
        parts.append("".join(before[number]) + bare + "".join(after[number]) + tail)
    return " ".join([*parts, *(["".join(before[-1]).strip()] if before[-1] else [])])


def lines(seed: int, num: int, **options):
    chance = random.Random(seed)
    return [tagged_line(chance, **options) for _ in range(num)]


def aligned(source: str, target: str, order) -> Alignment:
    """The words of a translation, each of which looks at a word of the source."""
    weights = np.zeros((len(order), len(word_spans(source)) + 1))
    weights[range(len(order)), list(order)] = 1.0
    return Alignment(tuple(word_spans(source)), tuple(word_spans(target)), weights)


def enciphered(text: str) -> str:
    """The line with other letters outside of its tags."""
    parts = re.split(r"(<[^<>]*>)", text)
    return "".join(part if number % 2 else codecs.encode(part, "rot13") for number, part in enumerate(parts))


def is_well_formed(text: str) -> bool:
    opened = []
    for tag in TAG.findall(text):
        name = re.match(r"</?(\w+)", tag)[1]
        if name in ("br", "img"):
            continue
        if not tag.startswith("</"):
            opened.append(name)
        elif not opened or opened.pop() != name:
            return False
    return not opened


@pytest.mark.parametrize("crosses", [False, True])
@some_or_all(2_000)
def test_a_translation_in_the_same_order_is_written_byte_for_byte_as_its_line(crosses, num):
    for text in lines(1, num, crosses=crosses):
        line = STEPS.read(text)
        assert line.text.split() == TAG.sub(lambda tag: " " * tag[0].startswith("<br"), text).split(), text
        said = codecs.encode(line.text, "rot13")
        found = Translation(line.text, said, alignment=aligned(line.text, said, range(len(said.split()))))
        assert STEPS.undo(line, found).text == enciphered(text)


@some_or_all(2_000)
def test_whatever_the_order_each_tag_comes_back_once_and_none_cross(num):
    chance = random.Random(2)
    for text in lines(2, num):
        line = STEPS.read(text)
        words = codecs.encode(line.text, "rot13").split()
        for order in ([*range(len(words))][::-1], [chance.randrange(len(words)) for _ in range(chance.randint(1, 9))]):
            said = " ".join(words[number] for number in order)
            back = STEPS.undo(line, Translation(line.text, said, alignment=aligned(line.text, said, order)))
            assert is_well_formed(back.text), (text, back.text)
            assert sorted(TAG.findall(back.text)) == sorted(TAG.findall(text))
            assert TAG.sub("", back.text).split() == said.split()
            if sorted(order) == [*range(len(words))]:
                assert not re.search(r"<(\w+)[^<>]*></\1>", back.text), (text, back.text)


@some_or_all(2_000)
def test_each_word_of_a_turned_translation_stands_within_the_tags_of_its_word(num):
    def around(text: str) -> dict[str, set[str]]:
        opened, found = [], {}
        for tag, word in re.findall(r"(<[^<>]*>)|([^<>\s]+)", text):
            if word:
                found.setdefault(re.sub(r"\W", "", word), set()).update(opened)
                found.pop("", None)
            elif tag.startswith("</"):
                opened.remove(tag[2:-1])
            elif not tag.startswith(("<br", "<img")):
                opened.append(re.match(r"<(\w+)", tag)[1])
        return found

    for text in lines(3, num):
        line = STEPS.read(text)
        words = line.text.split()
        if len({re.sub(r"\W", "", word) for word in words}) < len(words):
            continue
        said = " ".join(reversed(words))
        found = Translation(line.text, said, alignment=aligned(line.text, said, range(len(words))[::-1]))
        assert around(STEPS.undo(line, found).text) == around(text)


@some_or_all(2_000)
def test_a_translation_that_goes_on_from_its_own_beginning_is_whole(num):
    chance = random.Random(4)
    for text in lines(4, num):
        whole = enciphered(text)
        inside = {place for tag in TAG.finditer(whole) for place in range(tag.start() + 1, tag.end())}
        cut = chance.choice([place for place in range(len(whole) + 1) if place not in inside])
        line = STEPS.read(text, whole[:cut])
        plain = codecs.encode(line.text, "rot13")
        if not plain.startswith(line.prefix):  # blanks beside a tag that the prefix has or lacks
            continue
        alignment = aligned(line.text, plain, range(len(plain.split())))
        back = STEPS.undo(line, Translation(line.text, plain, alignment=alignment, prefix_length=len(line.prefix)))
        assert back.text.startswith(whole[:cut])
        assert sorted(TAG.findall(back.text)) == sorted(TAG.findall(text))
        assert is_well_formed(back.text)
        assert back.text == whole
