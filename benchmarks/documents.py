"""Counts what documents keep: `identity` with a translator that changes nothing, `model` with a model, `speed`.

    python -m benchmarks.documents identity DIR...
    python -m benchmarks.documents model DIR --model runs/demo [--files 200]
    python -m benchmarks.documents speed --model runs/demo --source runs/demo/data/test.en

All HTML, PO, XLIFF and subtitle files below the directories are taken. In PO and XLIFF files `identity` first copies
each source, as it is written, into its translation. So a translator that changes nothing should give the same bytes.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from xml.parsers import expat

from nmt_cli.documents.document import translate_document
from nmt_cli.documents.sentences import splitter
from nmt_cli.formats.po import plural_rule
from nmt_cli.formats.readers import ENDINGS
from nmt_cli.normalization.code_finder import CodeFinder
from nmt_cli.system.errors import InputError
from nmt_cli.translation.results import Translation


def unchanged(lines: Sequence[str]) -> list[Translation]:
    """Return each line as its own translation."""
    return [Translation(line, 0.0, 0.0) for line in lines]


def marked(lines: Sequence[str]) -> list[Translation]:
    """Return each line with a word more, so that every segment is written anew."""
    return [Translation(f"{line} Zz", 0.0, 0.0) for line in lines]


def files_below(roots: Iterable[Path]) -> list[Path]:
    """Return the documents below directories, in the order of their names."""
    return sorted(
        path for root in roots for path in root.rglob("*") if path.suffix.lower() in ENDINGS and path.is_file()
    )


def with_sources_copied(path: Path) -> bytes:
    """Return a document whose translations are its sources, as they are written."""
    data = path.read_bytes()
    if path.suffix in (".po", ".pot"):
        return b"".join(_copied_messages(data))
    if path.suffix in (".xlf", ".xliff"):
        unit = rb"<source[^>]*>((?:(?!</source>).)*)</source>(\s*)<target([^>/]*)(?:/>|>(?:(?!</target>).)*</target>)"
        return re.sub(unit, lambda m: m[0][: m[0].index(b"<target")] + b"<target" + m[3] + b">" + m[1] + b"</target>",
                      data, flags=re.S)  # fmt: skip
    return data


def _copied_messages(data: bytes) -> Iterator[bytes]:
    """Yield the lines of a catalogue, with what follows msgid in the place of what follows msgstr."""
    sources: dict[bytes, list[bytes]] = {}
    name, is_header = b"", True
    rule = plural_rule(data.partition(b"\n\n")[0].replace(b'"\n"', b"").decode())
    for line in data.splitlines(keepends=True):
        if found := re.match(rb"(msgid_plural|msgid|msgctxt|msgstr(?:\[\d+\])?)(\s+)(\".*)", line, re.S):
            name = found[1]
            if name == b"msgid":
                sources = {}
            if not name.startswith(b"msgstr"):
                sources[name] = [found[3]]
            else:
                is_header = b"".join(sources[b"msgid"]).strip() == b'""'
                source = sources.get(b"msgid_plural", sources[b"msgid"])
                singular, plural = (
                    CodeFinder().counts(b"".join(text).decode()) for text in (sources[b"msgid"], source)
                )
                is_of_one = name == b"msgstr[%d]" % rule.singular_form and rule.num_forms != 1
                if is_of_one and (rule.is_singular_only or singular == plural):
                    source = sources[b"msgid"]
                yield from [line] if is_header else [name + found[2], *source]
                continue
        elif line.startswith(b"#,") and name:  # a filled message is not fuzzy
            line = line.replace(b" fuzzy,", b"")
            if line.strip() == b"#, fuzzy":
                continue
        elif line.startswith(b'"') and name.startswith(b"msgstr"):
            if is_header:
                yield line
            continue
        elif line.startswith(b'"'):
            sources[name].append(line)
        yield line


def identity(roots: Sequence[Path]) -> None:
    """Print how many documents come back byte for byte, and why others are refused."""
    split = splitter("en")
    same, other, refused = Counter[str](), Counter[str](), Counter[str]()
    sentences = Counter[str]()
    for path in files_below(roots):
        kind = path.suffix.lower()
        data = with_sources_copied(path)
        try:
            done = translate_document(str(path), data, unchanged, split, target_lang=None, overwrite=True)
        except InputError as error:
            refused[kind] += 1
            print(f"refused: {error}")
            continue
        sentences[kind] += done.counts.sentences
        (same if done.content == data else other)[kind] += 1
        if done.content != data:
            print(f"differs: {path}")
    for kind in sorted({*same, *other, *refused}):
        print(f"{kind}: {same[kind]:,} identical, {other[kind]:,} differ, {refused[kind]:,} refused, "
              f"{sentences[kind]:,} sentences")  # fmt: skip
    print(f"all: {same.total():,} identical, {other.total():,} differ, {refused.total():,} refused")


def with_model(roots: Sequence[Path], translate: Callable[[Sequence[str]], Iterable[Translation]], limit: int) -> None:
    """Print what the checkers of other programs and a count of placeholders say of translated documents."""
    split = splitter("en")
    totals = Counter[str]()
    paths = files_below(roots)
    random.Random(1).shuffle(paths)
    for path in paths[:limit]:
        kind = path.suffix.lower()
        data = path.read_bytes()
        try:
            done = translate_document(str(path), data, translate, split, target_lang="de", overwrite=True)
        except InputError as error:
            print(f"refused: {error}")
            totals[f"{kind} refused"] += 1
            continue
        totals[f"{kind} files"] += 1
        totals["segments"] += done.counts.segments
        totals["segments with a placeholder put back"] += done.counts.num_repaired
        totals["segments with a sentence kept"] += done.counts.num_untranslated
        if kind in (".po", ".pot"):
            before, after = (msgfmt_complaints(content) for content in (data, done.content))
            if after:
                totals[f"{kind} files that msgfmt --check refuses{' before too' if before else ''}"] += 1
                print(f"msgfmt: {path}: {after}" if not before else f"msgfmt before too: {path}")
            messages, kept = po_placeholders(done.content)
        elif kind in (".xlf", ".xliff"):
            expat.ParserCreate().Parse(done.content, True)
            messages, kept = 1, int(same_tags(data, done.content))
        else:
            messages, kept = 1, int(CodeFinder().counts(text_of(data)) == CodeFinder().counts(text_of(done.content)))
        totals[f"{kind} messages or documents"] += messages
        totals[f"{kind} that keep their placeholders"] += kept
    for name, number in sorted(totals.items()):
        print(f"{name}: {number:,}")


def text_of(data: bytes) -> str:
    """Return a document as text, whatever its encoding."""
    text = data.decode("utf-8", errors="replace")
    return re.sub(r"""\s(?:xml:)?(?:lang|alt|title|placeholder)\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]+)""", "", text)


def same_tags(before: bytes, after: bytes) -> bool:
    """Return whether each unit's target has the tags and placeholders of its source."""
    del before
    pairs = re.findall(r"<source[^>]*>(.*?)</source>.*?<target[^>]*?(?:/>|>(.*?)</target>)", after.decode(), re.S)
    return all(CodeFinder().counts(source) == CodeFinder().counts(target) for source, target in pairs if target)


def msgfmt_complaints(content: bytes) -> str:
    """Return what `msgfmt --check` says against a catalogue; nothing if it passes."""
    with tempfile.NamedTemporaryFile(suffix=".po") as file:
        file.write(content)
        file.flush()
        run = subprocess.run(["msgfmt", "--check", "-o", "/dev/null", file.name], capture_output=True, text=True)
    return run.stderr if run.returncode else ""


def po_placeholders(content: bytes) -> tuple[int, int]:
    """Return how many messages with placeholders a catalogue has, and how many of these have all of them once."""
    import polib

    with tempfile.NamedTemporaryFile(suffix=".po") as file:
        file.write(content)
        file.flush()
        catalogue = polib.pofile(file.name)
    messages = kept = 0
    for entry in catalogue:
        is_format = any(flag.endswith("-format") and "brace" not in flag and flag[:3] != "no-" for flag in entry.flags)
        count = CodeFinder(frozenset({"c-format"} if is_format else ())).counts
        sources = {tuple(sorted(count(text).items())) for text in (entry.msgid, entry.msgid_plural) if text}
        for translation in [entry.msgstr, *entry.msgstr_plural.values()]:
            if not translation or entry.obsolete or not any(sources):
                continue
            messages += 1
            if tuple(sorted(count(translation).items())) in sources:
                kept += 1
            else:
                print(f"placeholders: {entry.msgid!r} -> {translation!r}")
    return messages, kept


def _translations(translator: object, lines: Sequence[str]) -> Iterator[Translation]:
    return (found.translations[0] for found in translator.translate(lines))  # type: ignore[attr-defined]


def speed(translator: object, source: Path) -> None:
    """Print the sentences per second of lines, and of the same sentences in a page and a catalogue, and the ratios."""
    lines = list(dict.fromkeys(line for line in source.read_text("utf-8").split("\n") if line))
    page = "".join(f"<p>{line}</p>\n" for line in lines).replace(" & ", " &amp; ").encode()
    header = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    escaped = [line.replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    catalogue = (header + "".join(f'msgid "{line}"\nmsgstr ""\n\n' for line in escaped)).encode()
    times: dict[str, list[float]] = {"lines": [], "page.html": [], "messages.po": []}
    for _ in range(3):
        for name, data in (("lines", b""), ("page.html", page), ("messages.po", catalogue)):
            began = time.monotonic()
            changed = {"with_alignment": name != "lines"}
            translator.options = translator.options.model_copy(update=changed)  # type: ignore[attr-defined]
            if name == "lines":
                list(translator.translate(lines))  # type: ignore[attr-defined]
            else:
                translate = partial(_translations, translator)
                translate_document(name, data, translate, splitter("en"), target_lang="de")
            times[name].append(time.monotonic() - began)
    for name, seconds in times.items():
        ratio = min(times["lines"]) / min(seconds)
        print(f"{name}: {len(lines) / min(seconds):,.1f} sentences/s, {ratio:.2f} of lines (best of 3)")


def main() -> None:
    """Run one of the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("identity", "model", "speed"))
    parser.add_argument("roots", nargs="*", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--beam-size", type=int)
    given = parser.parse_args()
    if given.what == "identity":
        identity(given.roots)
        return
    from nmt_cli.assembly.trained_translator import open_translator

    translator = open_translator([given.model], threads=1, with_alignment=True, beam_size=given.beam_size)
    if given.what == "model":
        with_model(given.roots, partial(_translations, translator), given.files)
    else:
        speed(translator, given.source)


if __name__ == "__main__":
    main()
