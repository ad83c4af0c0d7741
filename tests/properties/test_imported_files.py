"""Odd files whose pairs are known: an import loses none, shifts none, invents none, and counts the rest."""

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import random
import zipfile
from collections import Counter
from xml.sax.saxutils import escape, quoteattr

import pytest

from nmt_cli.assembly.imported_pairs import import_pairs
from nmt_cli.formats.languages import Languages
from nmt_cli.formats.members import Settings
from nmt_cli.system.errors import InputError

WORDS = {
    "en": ["the", "cat", "is", "not", "here", "and", "you", "have", "seven", "old", "houses", "with", "a", "red"],
    "fr": ["le", "chat", "n'est", "pas", "ici", "et", "vous", "avez", "très", "vieilles", "où", "l'été", "à", "côté"],
    "zh": ["猫", "不在", "这里", "你有", "七座", "老房子", "红色的门", "我们", "明天", "见", "。"],
}
ODD = ['"', '""', "'", "“quoted”", "<b>", "&amp;", "a, b", "x; y", "|", "\\", "\\n", "#", "{0}", "%s", "=1+1", " ", "…"]
LINE_ENDS = ("\n", "\r\n", "\r")


class Drawing:
    """Sentences of two languages, with what is odd in them."""

    def __init__(self, seed, languages):
        self.random, self.languages = random.Random(seed), languages

    def text(self, side, *, breaks=(), number=0):
        words = [self.random.choice(WORDS[self.languages[side]]) for _ in range(self.random.randint(1, 9))]
        if self.random.random() < 0.3:
            words.insert(self.random.randrange(len(words) + 1), self.random.choice(ODD[:-1]))
        if breaks and self.random.random() < 0.2:
            words.insert(self.random.randint(1, len(words)), self.random.choice(breaks))
            words.append("end")
        return f"{number} " + " ".join(words)

    def pairs(self, count, breaks=()):
        """Pairs of which some have an empty side, as cells; and the truth of the output."""
        found = []
        for number in range(count):
            pair = [self.text(side, breaks=breaks, number=number) for side in (0, 1)]
            if number > 5 and self.random.random() < 0.1:
                pair[self.random.randrange(2)] = self.random.choice(["", " "])
            found.append(tuple(pair))
        return found


def truth(pairs):
    """The lines that an import has to write, and the numbers that it has to count."""
    kept = [tuple(flat(side) for side in pair) for pair in pairs if all(side.strip() for side in pair)]
    left = Counter(
        "empty on both sides" if not (source.strip() or target.strip()) else
        f"empty {'target' if source.strip() else 'source'}"
        for source, target in pairs if not (source.strip() and target.strip())
    )  # fmt: skip
    return kept, dict(left)


def flat(text):
    return text.replace("\r\n", " ").replace("\r", " ").replace("\n", " ")


def plain_tsv(draw):
    pairs = [tuple(side.replace("\t", " ") for side in pair) for pair in draw.pairs(60)]
    end = draw.random.choice(LINE_ENDS)
    extra = draw.random.choice(["", "\tCC-BY 2.0 (France) Attribution: tatoeba.org #1 (a) & #2 (b)"])
    shifted = sum(1 for number in range(len(pairs)) if number % 17 == 16)
    rows = []
    for number, (source, target) in enumerate(pairs):
        if number % 17 == 16:  # a tab in the text
            rows.append(f"{source}\t{target}\tfoo\tbar{extra}")
        else:
            rows.append(f"{source}\t{target}{extra}")
    kept = [pair for number, pair in enumerate(pairs) if number % 17 != 16]
    expected, left = truth(kept)
    left["more cells than the other rows: a separator in the text"] = shifted
    return "x.tsv", end.join(rows) + draw.random.choice(["", end]), expected, left


def quoted_table(name, dialects):
    def make(draw):
        pairs = draw.pairs(50, breaks=("\n", "\r\n", "\t", ",\n"))
        buffer = io.StringIO()
        options = draw.random.choice(dialects)
        quoting = draw.random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        writer = csv.writer(buffer, quoting=quoting, lineterminator=draw.random.choice(["\n", "\r\n"]), **options)
        if header := draw.random.choice([None, draw.languages, ("id", "Source text", "Target text")]):
            writer.writerow(header)
        for number, pair in enumerate(pairs):
            writer.writerow([number, *pair] if header and len(header) == 3 else pair)
        return name, buffer.getvalue(), *truth(pairs)

    return make


def tmx(draw):
    pairs = draw.pairs(40, breaks=("\n",))
    regions = [draw.random.choice([language, f"{language.upper()}-XX"]) for language in draw.languages]
    units, left, kept = [], Counter(), []
    for number, pair in enumerate(pairs):
        variants = [
            f"<tuv {draw.random.choice(['xml:lang', 'lang'])}={quoteattr(language)}>"
            f"<note>{'not text'}</note><seg>{marked(draw, text)}</seg></tuv>"
            for language, text in zip(regions, pair, strict=True)
        ]
        variants.append('<tuv xml:lang="de"><seg>deutsch</seg></tuv>')
        if number % 13 == 12:
            side = draw.random.randrange(2)
            del variants[side]
            left[f"no {draw.languages[side]} segment in the unit"] += 1
        else:
            kept.append(pair)
        draw.random.shuffle(variants)
        units.append(f"<tu tuid='{number}'><prop type='x'>p</prop>{''.join(variants)}</tu>")
    expected, empty = truth(kept)
    doctype = draw.random.choice(["", '<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n', "<!-- <tmx> -->"])
    body = "\n".join(units)
    return (
        "x.tmx",
        f'{doctype}<tmx version="1.4"><header srclang="en" segtype="sentence"/><body>{body}</body></tmx>',
        expected,
        {**left, **empty},
    )


def marked(draw, text):
    """The text with inline elements in it, whose codes are not text."""
    words = escape(text).split(" ")
    if len(words) > 3 and draw.random.random() < 0.5:
        words[1] = f'<bpt i="1">&lt;b&gt;<sub>alt</sub></bpt>{words[1]}<ept i="1">&lt;/b&gt;</ept>'
        words[2] = f"<hi>{words[2]}<hi></hi></hi><ph/>"
    return " ".join(words)


def xliff(draw):
    pairs = draw.pairs(40, breaks=("\n",))
    units, left, kept = [], Counter(), []
    for number, (source, target) in enumerate(pairs):
        sides = f"<source>{escape(source)}</source><seg-source><mrk>no</mrk></seg-source>"
        if number % 11 == 10:
            left["no target in the unit"] += 1
        elif number % 11 == 9 and target.strip():
            sides += f'<target state="needs-translation">{escape(target)}</target>'
            left["not translated yet (state needs-translation)"] += 1
        else:
            sides += f'<target><g id="1">{escape(target)}</g><x id="2"/></target>'
            kept.append((source, target))
        other = "<alt-trans><source>alt</source><target>alt</target></alt-trans>"
        units.append(f'<trans-unit id="{number}">{sides}{other}</trans-unit>')
    expected, empty = truth(kept)
    languages = f'source-language="{draw.languages[0]}" target-language="{draw.languages[1]}"'
    body = "".join(units)
    text = f'<xliff version="1.2"><file {languages}><body><group>{body}</group></body></file></xliff>'
    return "x.xlf", text, expected, {**left, **empty}


def json_lines(draw):
    pairs = draw.pairs(40, breaks=("\n", "\t", "\r"))
    shape = draw.random.randrange(3)
    lines = []
    for source, target in pairs:
        record = dict(zip(draw.languages if shape else ("source", "target"), (source, target), strict=True))
        lines.append(json.dumps({"id": 1, "translation": record} if shape == 2 else record, ensure_ascii=shape == 1))
    lines[20:20] = ["{broken", "", '{"source": 1}' if shape == 0 else "[1]"]
    expected, left = truth(pairs)
    left["not valid JSON"] = 1
    left["the field target is missing" if shape == 0 else "not a JSON object"] = 1
    if shape == 0:
        left["the field source and target is not a string"] = left.pop("the field target is missing")
    return "x.jsonl", "\n".join(lines), expected, left


def parallel(draw):
    """Two files whose lines end in all three ways, each in its own."""
    pairs = draw.pairs(50)
    texts = []
    for side in (0, 1):
        text = ""
        for pair in pairs:
            # An empty line that ends in LF after a CR would be the same bytes as one line end of Windows.
            ends = LINE_ENDS if pair[side] or not text.endswith("\r") else ("\r",)
            text += pair[side] + draw.random.choice(ends)
        texts.append(text)
    return [f"x.{language}" for language in draw.languages], texts, *truth(pairs)


KINDS = (
    plain_tsv,
    quoted_table("x.tsv", [{"delimiter": "\t"}]),
    quoted_table("x.csv", [{"delimiter": ","}, {"delimiter": ";"}]),
    tmx,
    xliff,
    json_lines,
    parallel,
)
PACKERS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


def encodings(name, texts, languages):
    """Encodings in which the texts can be written and can be recognised."""
    found = ["utf-8", "utf-8-sig", "utf-16"]
    old = "gb18030" if "zh" in languages else "cp1252"
    try:
        for text in texts:
            text.encode(old)
    except UnicodeEncodeError:
        return found
    odd = sum(not line.isascii() for text in texts for line in text.splitlines())
    return [*found, old, old] if odd > 10 and not name.endswith((".tmx", ".xlf")) else found


DAMAGE = (b'"', b"\t", b"\r", b"\n", b"\0", b"<", b"&", b"\xff\xfe", b",", b"{", b"<!DOCTYPE x [<!ENTITY a 'b'>]>")


@pytest.mark.parametrize("seed", range(70))
def test_a_damaged_file_is_read_or_refused_and_leaves_nothing_half_written(tmp_path, seed):
    draw = Drawing(seed, ("en", "fr"))
    names, texts, *_ = KINDS[seed % len(KINDS)](draw)
    names, texts = ([names], [texts]) if isinstance(names, str) else (names, texts)
    pack = draw.random.choice([*PACKERS])
    paths = []
    for name, text in zip(names, texts, strict=True):
        data = bytearray(PACKERS[pack](text.encode()))
        for _ in range(draw.random.choice([1, 3, 30])):
            place = draw.random.randrange(len(data))
            data[place : place + draw.random.randrange(9)] = draw.random.choice([b"", *DAMAGE])
        paths.append(tmp_path / (name + pack))
        paths[-1].write_bytes(data)
    num_written = 3
    try:
        import_pairs([os.fspath(path) for path in paths], f"{tmp_path}/out", Settings(Languages("en", "fr")))
    except InputError:
        num_written = 0
    assert len(list(tmp_path.iterdir())) == len(paths) + num_written


@pytest.mark.parametrize("seed", range(100))
def test_no_pair_is_lost_shifted_or_invented(tmp_path, seed):
    languages = [("en", "fr"), ("fr", "en"), ("en", "zh"), ("zh", "en")][seed % 4]
    draw = Drawing(seed, languages)
    names, texts, expected, left = KINDS[seed % len(KINDS)](draw)
    names, texts = ([names], [texts]) if isinstance(names, str) else (names, texts)
    encoding = draw.random.choice(encodings(names[0], texts, languages))
    ending = draw.random.choice([*PACKERS, "zip"])
    paths = []
    for name, text in zip(names, texts, strict=True):
        data = text.encode(encoding)
        paths.append(tmp_path / (name if ending == "zip" else name + ending))
        paths[-1].write_bytes(data if ending == "zip" else PACKERS[ending](data))
    if ending == "zip":
        with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("README.txt", "This is the text about the texts.\nIt is no text.\n")
            for path in paths:
                archive.write(path, f"deep/{path.name}")
        paths = [tmp_path / "x.zip"]
    made = import_pairs([os.fspath(path) for path in paths], f"{tmp_path}/out", Settings(Languages(*languages)))
    written = [path.read_bytes().decode().split("\n") for path in (made.source, made.target)]
    assert [side.pop() for side in written] == ["", ""]
    assert list(zip(*written, strict=True)) == expected, (names, encoding)
    report = json.loads(made.report.read_text(encoding="utf-8"))
    assert (report["pairs"], report["skipped"]) == (len(expected), {key: n for key, n in left.items() if n})
