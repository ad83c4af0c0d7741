"""Lines that are written in odd ways, and translators that are easy to follow."""

from __future__ import annotations

import codecs
import random
import re

CODES = ("%s", "__URL__", "{name}", "@tom", "http://a.b/c", "my_file")
WRITING = {
    "capitals": lambda words, _: [word.upper() for word in words],
    "small letters": lambda words, _: [word.lower() for word in words],
    "title": lambda words, _: [word.title() for word in words],
    "no stop": lambda words, _: [*words[:-1], words[-1].rstrip(".!?") or "x"],
    "blank before the stop": lambda words, _: [*words[:-1], re.sub(r"([.!?]+)$", r" \1", words[-1])],
    "no apostrophes": lambda words, _: [word.replace("'", "") for word in words],
    "one word": lambda words, chance: [chance.choice(words)],
}
WORDS = {
    "stress": lambda word, _: word.upper(),
    "small word": lambda word, _: word.lower(),
    "quotes": lambda word, _: f"“{word}”",
    "dash": lambda word, _: f"{word} –",
    "dash within": lambda word, _: f"{word}—{word}",
    "apostrophe": lambda word, _: word.replace("'", "’"),
    "comma": lambda word, _: f"{word} ,",
    "exchanged": lambda word, _: word[:1] + word[2:3] + word[1:2] + word[3:],
    "no-break blank": lambda word, _: f"{word}\u00a0x",
    "number": lambda _, chance: chance.choice(NUMBERS),
    "code": lambda _, chance: chance.choice(CODES),
}
"""By name, what becomes of the words of a line, or of one of them."""

SYMBOLS = {
    "picture in front": lambda words, _: ["😀", *words],
    "picture behind": lambda words, _: [*words, "❤️ 👍🏽"],
    "bullet": lambda words, chance: [chance.choice("•*→☆"), *words],
    "brackets": lambda words, chance: _between(words, chance.choice(("()", "[]", "«»", "“”", '""', "**", "★★"))),
    "smile": lambda words, _: [*words, ":)"],
}
"""The same with symbols around a line."""

INNER = {
    "picture": lambda words, chance: _put(words, chance, lambda _: chance.choice(("😀", "❤️", "★ ★", "→", "•"))),
    "sign and word": lambda words, chance: _put(words, chance, lambda word: chance.choice(("#", "~", "*")) + word),
    "slash": lambda words, chance: _put(words, chance, lambda word: f"{word}/{chance.choice(words).strip('.?!')}"),
    "pair": lambda words, chance: _put(words, chance, lambda word: chance.choice(PAIRS).replace("x", word)),
    "long dash": lambda words, chance: _put(words, chance, lambda word: chance.choice((f"{word} –", f"{word}—{word}"))),
    "long pair": lambda words, chance: _enclose(words, chance, chance.choice(PAIRS).split("x")),
    "degrees": lambda words, chance: _put(words, chance, lambda _: chance.choice(("20 °C", "5°", "30 °F."))),
}
"""The same with symbols within a line."""
PAIRS = ("(x)", "[x]", "{x}", "«x»", '"x"', "“x”", "*x*", "–x–", "(“x”)", "((x))", "(x),")


def _put(words, chance, make):
    place = chance.randrange(len(words))
    return [*words[:place], make(words[place]), *words[place + 1 :]]


def _enclose(words, chance, pair):
    begin = chance.randrange(len(words))
    end = chance.randint(begin, len(words) - 1)
    own = [*words]
    own[begin] = pair[0] + own[begin]
    own[end] += pair[1]
    return own


NUMBERS = (
    "42", "4711", "1,000", "3.14", "12:30", "1 000 000", "€50", "50 €", "$3", "A4", "PG-13", "12th", "1990s", "-5",
    "mp3", "06 12 34 56 78", "R&B", "10-year-old", "20/11/2020", "42'IL", "5%", "1 1/2", "http://x.y/z1", "a@b.c1",
    "42.", "#1", "(555) 123-4567", "5km", "x_1", "__URL_1__", "%1$s", "{0}", " 5 000", "1 000", "COVID-19",
    "www.a1.com/2",
)  # fmt: skip


def _between(words, pair):
    return [pair[0] + words[0], *words[1:-1], words[-1] + pair[1]] if len(words) > 1 else [pair[0] + words[0] + pair[1]]


def odd_line(line: str, chance: random.Random, kinds=(*WRITING, *WORDS)) -> str:
    """The line, made odd in one to three ways."""
    words = line.split()
    for kind in chance.choices(list(kinds), k=chance.choice((1, 1, 2, 3))):
        place = chance.randrange(len(words))
        if kind in WORDS:
            words[place] = WORDS[kind](words[place], chance)
        else:
            words = {**WRITING, **SYMBOLS, **INNER}[kind](words, chance)
    return " ".join(words)


def enciphered(text: str) -> str:
    """The text with other letters, but for words that are no text."""
    return " ".join(
        word if any(code in word for code in CODES) else codecs.encode(word, "rot13") for word in text.split()
    )


def turned_round(text: str) -> str:
    """The words of the text in reverse order."""
    return " ".join(reversed(text.split()))


TRANSLATORS = (str, enciphered, turned_round)
