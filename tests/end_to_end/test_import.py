"""`nmt import`, `nmt init --pairs`, and what other commands say of files that are not plain text."""

import contextlib
import errno
import gzip
import json
import os
import resource
import shutil
import tempfile
import zipfile

import pytest
from command_line import run_here
from marks import others_soak

from nmt_cli.config.loader import load_config

PAIRS = [(f"the cat number {number} is here", f"le chat numéro {number} est là") for number in range(60)]
TABLE = "".join(f"{source}\t{target}\n" for source, target in PAIRS)
LANGUAGES = ("--source-lang", "en", "--target-lang", "fr")


@pytest.fixture
def here(tmp_path):
    """An empty directory, in which commands run."""
    with contextlib.chdir(tmp_path):
        yield tmp_path


def nmt(*arguments):
    done = run_here(*(str(argument) for argument in arguments))
    return done.code, done.out.decode(), done.err


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_table_becomes_two_files_and_a_report_and_what_was_seen_is_said(here):
    (here / "table.txt").write_bytes(TABLE.encode("utf-16"))
    code, out, err = nmt("import", "table.txt", "-o", "made", *LANGUAGES)
    assert (code, out) == (0, "")
    assert err == (
        "table.txt: TSV, UTF-16 with byte order mark\n"
        "table.txt: source in column 1, target in column 2 (chosen by the order of the columns)\n"
        "60 pairs written to made.en and made.fr\n"
        "format, encoding and skipped pairs are in made.report.json\n"
        "try: nmt init --source made.en --target made.fr --source-lang en --target-lang fr -o made.yaml\n"
    )
    assert (here / "made.fr").read_text(encoding="utf-8").splitlines() == [target for _, target in PAIRS]
    report = json.loads((here / "made.report.json").read_text(encoding="utf-8"))
    assert (report["pairs"], report["format"], report["encoding"], report["skipped"]) == (60, "TSV", "UTF-16", {})


def test_a_row_that_is_taken_for_a_header_by_its_words_is_shown(here):
    rows = [("Text", "Sentence\x1b"), *PAIRS]
    (here / "table.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    _, _, err = nmt("import", "table.tsv", "-o", "made", *LANGUAGES, "--columns", "1,2")
    assert "table.tsv: its first row is taken for a header, not for a pair: Text | Sentence\n60 pairs" in err


TMX = (
    '<?xml version="1.0" encoding="utf-16"?><tmx version="1.4"><body><tu><tuv xml:lang="en"><seg>café one</seg></tuv>'
    '<tuv xml:lang="fr"><seg>café un</seg></tuv></tu></body></tmx>'
)
PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-16\\n"\n\nmsgid "café one"\nmsgstr "café un"\n'


@pytest.mark.parametrize(
    ("name", "content", "options", "encoding"),
    [
        ("a.tmx", TMX.encode(), (), "UTF-8"),  # as programs on .NET write it
        ("a.tmx", TMX.encode("utf-16-le"), ("--encoding", "UTF-16"), "UTF-16-LE"),
        ("a.tsv", "café one\tcafé un\n".encode("utf-16-le"), ("--encoding", "UTF-16"), "UTF-16-LE"),
        ("a.po", PO.encode("cp1252"), (), "cp1252"),
    ],
)
def test_a_text_that_says_utf16_is_read_as_what_it_is(here, name, content, options, encoding):
    (here / name).write_bytes(content)
    code, _, err = nmt("import", name, "-o", "made", *LANGUAGES, *options)
    assert code == 0, err
    assert (here / "made.en").read_text(encoding="utf-8") == "café one\n"
    assert json.loads((here / "made.report.json").read_text(encoding="utf-8"))["encoding"] == encoding


def test_utf16_that_is_asked_for_and_is_none_is_told(here):
    (here / "a.tmx").write_bytes(TMX.encode())
    code, _, err = nmt("import", "a.tmx", "-o", "made", *LANGUAGES, "--encoding", "UTF-16")
    assert code == 2
    assert "a.tmx: is not valid UTF-16 (UTF-16 stream does not start with BOM); give its encoding, such as --enc" in err
    (here / "a.tsv").write_bytes(TABLE.encode())
    code, _, err = nmt("import", "a.tsv", "-o", "made", *LANGUAGES, "--encoding", "UTF-16")
    assert code == 2
    assert "a.tsv: is not valid UTF-16 (UTF-16 stream does not start with BOM); give its encoding, such as" in err


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_is_read_as_a_file_is(here, pack):
    (here / "table").write_bytes(pack(TABLE.encode("utf-16")))
    assert nmt("import", "table", "-o", "made", *LANGUAGES)[0] == 0
    done = run_here("import", "-", "-o", "piped", *LANGUAGES, stdin=(here / "table").read_bytes())
    assert done.code == 0, done.err
    assert "standard input: TSV, UTF-16 with byte order mark" in done.err
    assert [(here / f"piped.{end}").read_bytes() for end in ("en", "fr")] == [
        (here / f"made.{end}").read_bytes() for end in ("en", "fr")
    ]


def test_a_file_that_may_not_grow_so_large_is_named(here):
    (here / "table.tsv").write_text(TABLE * 10)
    _, most = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, most))
    try:
        code, _, err = nmt("import", "table.tsv", "-o", "made", *LANGUAGES)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (code, err.splitlines()[-1], names(here)) == (1, "nmt: made.fr: file too large", ["table.tsv"])


def test_a_full_disk_of_temporary_files_is_named(here, monkeypatch):
    """Standard input is copied there, while the output may lie on a disk with space."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfileobj", full)
    done = run_here("import", "-", "-o", "piped", *LANGUAGES, stdin=TABLE.encode())
    told = f"nmt: {tempfile.gettempdir()}: no space left on the device; free some and run the same command again\n"
    assert (done.code, done.err, names(here)) == (1, told, [])


def test_standard_input_is_called_so_in_messages_and_in_the_report(here):
    def piped(data, *options):
        done = run_here("import", "-", "-o", "piped", *LANGUAGES, *options, stdin=data)
        assert "nmt-" not in done.err
        return done

    done = piped(b"en\tfr\nThe house\tLa maison\n\tchien\n", "--format", "tsv")
    assert (done.code, "empty source (1, the first is standard input:3)" in done.err) == (0, True), done.err
    report = json.loads((here / "piped.report.json").read_text(encoding="utf-8"))
    assert report["skipped_places"] == {"empty source": ["standard input:3"]}
    assert report["inputs"][0]["files"] == ["standard input"]
    for name in ("piped.en", "piped.fr", "piped.report.json"):
        (here / name).unlink()
    with zipfile.ZipFile("a.zip", "w") as archive:
        for name in ("one.tsv", "it's two.tsv"):
            archive.writestr(name, "a\tb\n")
    for data, message in (
        (gzip.compress(TABLE.encode())[:50], "standard input: the compressed data is damaged or cut off"),
        (b"en\tfr\n", "standard input: no pair was found"),
        (b"one line\n", "standard input: is plain text in one language"),
        (b"%PDF-1.7\n", "standard input: is a PDF document"),
        (b"PK\x03\x04" + bytes(99), "standard input: is a damaged zip archive"),
        ((here / "a.zip").read_bytes(), "--member one.tsv; or --member 'it'\"'\"'s two.tsv'"),
    ):
        done = piped(data)
        assert (done.code, message in done.err) == (2, True), done.err
    assert names(here) == ["a.zip"]


def test_the_one_parallel_text_of_an_archive_is_read_and_the_rest_named(here):
    with zipfile.ZipFile("a.zip", "w") as archive:
        archive.writestr("__MACOSX/x", "x")
        archive.writestr("README", "Nothing.\n")
        archive.writestr("page.html", "<html><body>no text</body></html>")
        archive.writestr("picture.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
        archive.writestr("none", "")
        for side, language in enumerate(("en", "fr")):
            archive.writestr(f"corpus.en-fr.{language}", "".join(f"{pair[side]}\n" for pair in PAIRS))
        archive.writestr("corpus.en-fr.ids", "a/b\tc/d\t1\n" * 60)
    code, _, err = nmt("import", "a.zip", "-o", "made", *LANGUAGES)
    assert code == 0, err
    assert "a.zip: corpus.en-fr.en and a.zip: corpus.en-fr.fr: parallel text, UTF-8\n" in err
    assert "\ncorpus.en-fr.en and corpus.en-fr.fr: source first (chosen by the file names)\n" in err
    assert "not read: README\nnot read: page.html\nnot read: picture.png\nnot read: corpus.en-fr.ids\n" in err
    with zipfile.ZipFile("a.zip", "a") as archive:
        archive.writestr("other.tsv", TABLE)
    code, _, err = nmt("import", "a.zip", "-o", "two", *LANGUAGES)
    assert code == 2
    assert "a.zip: holds several parallel texts. Run the same command again with one of these: --member corpus" in err
    assert nmt("import", "a.zip", "-o", "two", *LANGUAGES, "--member", "other.tsv")[0] == 0
    assert (here / "two.fr").read_bytes() == (here / "made.fr").read_bytes()


@pytest.mark.parametrize(
    "files",
    [
        "a.en b.en a.fr b.fr",
        "b.fr a.en a.fr b.en",
        "a.fr b.fr b.en a.en",
        "movie.1.en.srt movie.2.en.srt movie.1.fr.srt movie.2.fr.srt",
        "a_en.txt b_en.txt a_fr.txt b_fr.txt",
    ],
)
def test_files_in_the_order_of_the_alphabet_are_paired_by_their_names(here, files):
    for name in files.split():
        episode, language = (
            ("1" if "1" in name or "a." in name or "a_" in name else "2"),
            "fr" if "fr" in name else "en",
        )
        cue = "1\n00:00:01,000 --> 00:00:02,000\n" if name.endswith(".srt") else ""
        (here / name).write_text(f"{cue}{language} {episode}\n", encoding="utf-8")
    code, out, err = nmt("import", *files.split(), "-o", "made", *LANGUAGES)
    assert (code, out) == (0, ""), err
    sides = [sorted((here / f"made.{language}").read_text(encoding="utf-8").splitlines()) for language in ("en", "fr")]
    assert sides == [["en 1", "en 2"], ["fr 1", "fr 2"]]
    sides = [(here / f"made.{language}").read_text(encoding="utf-8").split() for language in ("en", "fr")]
    assert sides[0][1::2] == sides[1][1::2]


def test_files_that_only_mention_a_language_stand_as_they_are_given(here):
    for name, text in {"fr-en.src": "one\n", "fr-en.tgt": "un\n"}.items():
        (here / name).write_text(text, encoding="utf-8")
    assert nmt("import", "fr-en.src", "fr-en.tgt", "-o", "made", *LANGUAGES)[0] == 0
    assert (here / "made.fr").read_text(encoding="utf-8") == "un\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'FILE'."),
        (("nil",), "nil: there is no such file"),
        (("",), "the name of an input file is empty"),
        ((".",), "not read: a.7z: is a 7z archive"),
        (("-",), "standard input: is empty"),
        (("-", "-"), "standard input can be read only once: give files for the other inputs"),
        (("/dev/null",), "/dev/null: is a pipe or a device; an import reads a file more than once, so save it first"),
        (("a.en",), "a.en: is plain text in one language; give the file with its translations too"),
        (("a.en", "a.en"), "a.en: is given twice; give the source text and its translations"),
        (("a.en", "short.fr", "a.en", "b.fr"), "a.en: is given twice; give the source text and its translations"),
        (("t.tsv", "./t.tsv"), "./t.tsv: is given twice; leave one out"),
        (
            ("a.en", "c.en"),
            "a.en and c.en: both are named as en; give each source text directly before its translation, or rename",
        ),
        (("a.en", "c.en", "d.fr", "b.fr"), "a.en and c.en: both are named as en; give each source text directly"),
        (("a.en", "short.fr"), "a.en has 60 lines and short.fr has 1 line; line i of one must belong to line i"),
        (("empty",), "empty: is empty"),
        (("page",), "page: is HTML, a page in one language; `nmt import page -o PREFIX --lang XX` writes its text"),
        (("paper.pdf",), "paper.pdf: is a PDF document; this command cannot read it; copy the text out of it"),
        (("a.7z",), "a.7z: is a 7z archive; unpack it, then give the file in it to this command"),
        (("damaged.zip",), "damaged.zip: is a damaged zip archive"),
        (("deflate64.zip",), "deflate64.zip: is compressed in a way that is not known here"),
        (("twice.gz",), "twice.gz: is gzip data in a compressed file; decompress it first, then give what is in it"),
        (("latin.po", "--encoding", "utf-8"), "latin.po:4: is not valid utf-8 (invalid continuation byte); fix the"),
        (("t.tsv", "--format", "xlsx"), "t.tsv: is not a spreadsheet, as --format xlsx says; leave out --format"),
        (("t.tsv", "--format", "ods"), "t.tsv: is not a spreadsheet, as --format ods says; leave out --format"),
        (
            ("a.json",),
            "a.json: is JSON, of which each line must hold one object. For example `jq -c '.[]' a.json > a.jsonl`",
        ),
        (("a.json", "--format", "jsonl"), "a.json: is JSON, of which each line must hold one object. For example"),
        (("an indented.json",), "For example `jq -c . 'an indented.json' > 'an indented.jsonl'` writes such lines"),
        (
            ("a.json.gz",),
            "a.json.gz: is JSON, of which each line must hold one object. For example `jq -c '.[]' a.json",
        ),
        (("noise",), "noise:1: holds zero bytes and is not text in any format that is known here; if"),
        (("t.tsv", "--format", "xml"), "--format xml: must be one of text, tsv, csv"),
        (("t.tsv", "--encoding", "utf-88"), "--encoding utf-88: is not known; examples are UTF-8, cp1252"),
        *(
            (("t.tsv", "--encoding", name), f"--encoding {name}: is not known; examples are UTF-8, cp1252")
            for name in ("undefined", "idna", "punycode", "hex")
        ),
        (("t.tsv", "--encoding", "\udcff"), "--encoding \\udcff: is not known; examples are UTF-8, cp1252"),
        (("t.tsv", "--encoding", "ascii"), "t.tsv: is not valid ascii (ordinal not in range(128)); give its encoding"),
        (("t.tsv", "--source-lang", "../x"), "--source-lang ../x: must be a language code, such as en or pt_BR"),
        (("t.tsv", "-o", "no/such"), "no/such.en: there is no directory no; make it first"),
        (("t.tsv", "-o", "."), "-o .: must be the beginning of file names, such as -o corpus for corpus.en"),
        (("t.tsv", "-o", "a"), "a.en: exists already and is not overwritten; choose another -o, or move it away"),
        (
            ("train.en", "train.fr"),
            "look like TSV. Run the same command again with one of these: --format text; or --format",
        ),
        (("t.tsv", "--target-lang", "de", "--columns", "3,1"), "--columns 3,1: t.tsv has no column 3; there are 2"),
        (("t.tsv", "--columns", "1,01"), "--columns 1,01: both are column 1 of t.tsv; give two columns, source first"),
        (("t.jsonl", "--columns", "en"), "--columns en: give two columns, source first, such as --columns 1,2"),
        (
            ("wide.csv",),
            "wide.csv: no pair was found; more cells than the header row: a column without a name, or a separator",
        ),
    ],
)
def test_what_is_not_understood_is_refused_and_leaves_nothing(here, arguments, message):
    (here / "t.tsv").write_text(TABLE, encoding="utf-8")
    (here / "a.en").write_text("one line\n" * 60, encoding="utf-8")
    (here / "short.fr").write_text("une\n", encoding="utf-8")
    for name in ("c.en", "b.fr", "d.fr"):
        (here / name).write_text("une\n", encoding="utf-8")
    (here / "empty").touch()
    (here / "page").write_text("<!DOCTYPE html>\n<html><body>x</body></html>", encoding="utf-8")
    (here / "paper.pdf").write_bytes(b"%PDF-1.7\n")
    (here / "a.7z").write_bytes(b"7z\xbc\xaf\x27\x1c" + bytes(99))
    (here / "damaged.zip").write_bytes(b"PK\x03\x04" + bytes(99))
    (here / "twice.gz").write_bytes(gzip.compress(gzip.compress(TABLE.encode())))
    (here / "latin.po").write_bytes('msgid "a"\nmsgstr "b"\n\nmsgid "café"\nmsgstr "c"\n'.encode("latin-1"))
    (here / "noise").write_bytes(bytes(range(256)) * 99)
    with zipfile.ZipFile(here / "deflate64.zip", "w") as archive:
        archive.writestr("t.tsv", TABLE)
    packed = bytearray((here / "deflate64.zip").read_bytes())
    packed[8] = packed[packed.index(b"PK\1\2") + 10] = 9  # the compression, at the member and in the directory
    (here / "deflate64.zip").write_bytes(packed)
    (here / "a.json").write_text('[\n{"en": "a", "fr": "b"},\n{"en": "c", "fr": "d"}\n]\n', encoding="utf-8")
    (here / "a.json.gz").write_bytes(gzip.compress((here / "a.json").read_bytes()))
    (here / "an indented.json").write_text('{\n  "en": "a",\n  "fr": "b"\n}\n', encoding="utf-8")
    (here / "t.jsonl").write_text('{"en": "a", "fr": "b"}\n', encoding="utf-8")
    (here / "wide.csv").write_text("en,fr\n" + "one,un, deux\n" * 9, encoding="utf-8")
    for language in ("en", "fr"):
        (here / f"train.{language}").write_text("a\tb\n" * 9, encoding="utf-8")
    before = names(here)
    options = ("-o", "made", *LANGUAGES)
    code, out, err = nmt("import", *options, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert names(here) == before


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('<?xml version="1.0"?>\n<resources><string name="a">x</string></resources>\n', "XML or SGML, but neither TMX"),
        (
            '<!DOCTYPE TS>\n<TS version="2.1">\n',
            "XML or SGML, but neither TMX nor XLIFF; let the program that wrote it",
        ),
        ('<refset trglang="fr">\n<doc docid="1">\n<seg id="1">x</seg>\n', "XML or SGML, but neither TMX nor XLIFF"),
        ("[Script Info]\nTitle: x\n", "a file of subtitles that is neither SRT nor VTT; convert it to SRT"),
        ("0:00:01.000,0:00:02.000\nx\n", "a file of subtitles that is neither SRT nor VTT"),
        ("{10}{50}x\n", "a file of subtitles that is neither SRT nor VTT"),
        ("[ar:x]\n[ti:y]\n[00:12.00]x\n", "a file of subtitles that is neither SRT nor VTT"),
        ("Scenarist_SCC V1.0\n\n00:00:01:00 9420\n", "a file of subtitles that is neither SRT nor VTT"),
    ],
)
def test_two_files_of_a_format_that_is_not_read_are_no_parallel_text(here, text, what):
    for language in ("en", "fr"):
        (here / f"a.{language}").write_text(f"\ufeff{text}", encoding="utf-8")
    code, _, err = nmt("import", "a.en", "a.fr", "-o", "made", *LANGUAGES)
    assert (code, names(here)) == (2, ["a.en", "a.fr"])
    assert err.startswith(f"nmt: a.en: is {what}")
    assert err.endswith(". If each of its lines is a sentence, give --format text\n")
    assert nmt("import", "a.en", "a.fr", "-o", "made", *LANGUAGES, "--format", "text")[0] == 0


@pytest.mark.parametrize("text", ["<BT> <b>x</b>\ny\n", "<b>\nx\n", "{1} x\n", "1:00:00 x\n", "[1:00:00] x\n"])
def test_a_line_with_marks_is_text(here, text):
    for language in ("en", "fr"):
        (here / f"a.{language}").write_text(text, encoding="utf-8")
    assert nmt("import", "a.en", "a.fr", "-o", "made", *LANGUAGES)[0] == 0


def test_options_that_change_nothing_are_named(here):
    (here / "t.tsv").write_text(TABLE, encoding="utf-8")
    code, _, err = nmt("import", "t.tsv", "-o", "a", *LANGUAGES, "--sheet", "One", "--member", "x", "--columns", "1,2")
    assert code == 0
    assert [line for line in err.splitlines() if "warning" in line] == [
        "warning: --sheet One: does nothing for TSV", "warning: --member x: does nothing for TSV",
    ]  # fmt: skip


def test_init_imports_first_and_leaves_nothing_where_it_fails(here):
    (here / "t.csv").write_text("".join(f'"{s}","{t}"\n' for s, t in PAIRS), encoding="cp1252")
    code, _, err = nmt("init", "--pairs", "t.csv", *LANGUAGES, "-o", "my.yaml")
    assert code == 0, err
    assert "t.csv: CSV, cp1252\n" in err
    assert names(here) == ["my.data", "my.en", "my.fr", "my.report.json", "my.yaml", "t.csv"]
    assert load_config(here / "my.yaml").data.train[0].source == "my.data/train.en"
    (here / "one.tsv").write_text("a\tb\n", encoding="utf-8")
    (here / "three.tsv").write_text("a b\tc d\te f\n" * 9, encoding="utf-8")
    (here / "named.csv").write_text("English,German,Dutch\n" + "one two,eins zwei,een twee\n" * 9, encoding="utf-8")
    before = names(here)
    for arguments, message in (
        (("--pairs", "one.tsv"), "there is nothing to train on"),
        (("--pairs", "three.tsv"), "Run `nmt import three.tsv -o new --source-lang en --target-lang fr` again with"),
        (
            ("--pairs", "named.csv"),
            "`nmt import` has this option: `nmt import named.csv -o new --source-lang en --target-lang fr`. Then give",
        ),
        (("--pairs", "one.tsv", "--source", "my.en"), "give --source and --target, or else --pairs with files that"),
        ((), "give --source and --target, or else --pairs with files that `nmt import` reads"),
        (("--source", "my.en"), "--source names 1 files and --target 0"),
    ):
        code, _, err = nmt("init", *arguments, *LANGUAGES, "-o", "new.yaml")
        assert (code, message in err) == (2, True), err
        assert names(here) == before


def test_the_commands_that_init_prints_work_with_blanks_in_names(here):
    (here / "t.tsv").write_text(TABLE, encoding="utf-8")
    code, _, err = nmt("init", "--pairs", "t.tsv", *LANGUAGES, "-o", "my own.yaml")
    assert (code, err.splitlines()[-1]) == (
        0, "try: nmt check --config 'my own.yaml'; nmt train --config 'my own.yaml'",
    )  # fmt: skip
    (here / "three ways.tsv").write_text("a b\tc d\te f\n" * 9, encoding="utf-8")
    code, _, err = nmt("init", "--pairs", "three ways.tsv", *LANGUAGES, "-o", "its own.yaml")
    assert (code, "`nmt import 'three ways.tsv' -o 'its own' --source-lang en" in err) == (2, True), err


FOREIGN = {
    "t.txt": ("one\ntwo\n".encode("utf-16"), "t.txt: is UTF-16 text, but plain text in UTF-8 is expected here"),
    "t.zip": (b"PK\x03\x04" + b"\0" * 26 + b"t.txt", "t.zip: is a zip archive, but"),
    "t.docx": (b"PK\x03\x04" + b"\0" * 26 + b"word/document.xml", "t.docx: is a document of a word processor, but"),
    "t.xlsx": (b"PK\x03\x04" + b"\0" * 26 + b"xl/workbook.xml", "t.xlsx: is a spreadsheet, but"),
    "t.tmx": (b'<?xml version="1.0"?>\n<!-- x -->\n<tmx version="1.4">\n', "t.tmx: is a TMX file, but"),
    "t.xlf": (
        b'<xliff version="1.2">\n',
        "t.xlf: is an XLIFF file, but plain text in UTF-8 is expected here; `nmt translate` translates it as a doc",
    ),
    "t.png": (b"\x89PNG\r\n\x1a\n\0\0", "t.png: is a picture, but"),
    "t.jpg": (b"\xff\xd8\xff\xe0\0", "t.jpg: is a picture, but"),
    "t.xz": (b"\xfd7zXZ\0", "t.xz: is xz data, but"),
    "t.en": (gzip.compress(b"one\n"), "t.en: is gzip data, but"),
    "t.gz": (gzip.compress("one\ntwo\n".encode("utf-16")), "t.gz: is UTF-16 text, but"),
}


@pytest.mark.parametrize("name", others_soak(*FOREIGN))
def test_every_command_refuses_a_named_file_that_is_plainly_not_text(here, model, name):
    content, message = FOREIGN[name]
    (here / name).write_bytes(content)
    (here / "plain").write_text("one\ntwo\n", encoding="utf-8")
    sets = (f"data.train.0.source={name}", f"data.train.0.target={name}", f"model_dir={here / 'run'}")
    with_sets = [word for value in sets for word in ("--set", value)]
    for command in (
        ("init", "--source", name, "--target", "plain", *LANGUAGES, "-o", "x.yaml"),
        ("check", "--config", model / "config.yaml", *with_sets),
        ("tokenizer", "--config", model / "config.yaml", *with_sets),
        ("train", "--config", model / "config.yaml", *with_sets),
        ("encode", name, "--model", model),
        ("translate", name, "--model", model),
        ("score", name, "--reference", "plain"),
        ("score", "plain", "--reference", name),
        ("rescore", "plain", name, "--model", model),
        ("align", name, "plain", "--model", model),
        ("evaluate", "--model", model, "--source", name, "--reference", "plain"),
    ):
        code, _, err = nmt(*command)
        assert (code, message in err) == (2, True), (command, err)
        assert "`nmt import`" in err or name == "t.docx"
    assert nmt("encode", "--model", model)[0] == 0


def test_standard_input_is_never_guessed_at(here, model):
    done = run_here("encode", "--model", str(model), stdin=FOREIGN["t.txt"][0])
    assert (done.code, done.out.count(b"\n")) == (0, 3)
    done = run_here("encode", "/dev/stdin", "--model", str(model), stdin=b"PK\x03\x04\n<tmx \n")
    assert done.code in (0, 2)  # a file that is given as standard input is a file


def test_a_byte_order_mark_before_plain_text_is_warned_of(here):
    (here / "t").write_bytes(b"\xef\xbb\xbfa text\n")
    (here / "u").write_bytes(b"a text\n")
    code, _, err = nmt("score", "t", "--reference", "u", "--metric", "chrf")
    assert code == 0, err
    message = "t: begins with a byte order mark, which is read as a character of line 1; `nmt import` removes it"
    assert err.count("byte order mark") == 1
    assert f"warning: {message}\n" in err


def as_document(ending, for_training):
    first = f"`nmt translate` translates it as a document if its name ends in {ending} and -o is given"
    return f"{first}; to train on it, {for_training}"


TO_TEXT = "`nmt import` turns it into plain text (with --lang XX if it is in one language)"
WITH_TRANSLATION = "give it to `nmt import` together with its translation"


@pytest.mark.parametrize(
    ("text", "kind", "advice"),
    [
        ("a\tb\nc\td\n", "TSV", TO_TEXT),
        ('"a","b"\n"c","d"\n', "CSV", TO_TEXT),
        ("<!doctype html>\n<p>\n", "HTML", as_document(".html", "take its text with `nmt import --lang XX`")),
        ('msgid "a"\nmsgstr "b"\n', "PO", as_document(".po", "take the pairs out of it with `nmt import`")),
        ("1\n00:00:01,000 --> 00:00:02,000\nx\n", "SRT", as_document(".srt", WITH_TRANSLATION)),
        ("WEBVTT\n", "VTT", as_document(".vtt", WITH_TRANSLATION)),
        ("plain, text\nin, lines\n", None, None),
        ('{"a": 1}\n', None, None),
    ],
)
def test_a_file_that_looks_like_a_table_or_a_document_is_warned_of_once(here, text, kind, advice):
    (here / "t").write_text(text, encoding="utf-8")
    code, _, err = nmt("score", "t", "--reference", "t", "--metric", "chrf", "--baseline", "t")
    assert code == 0, err
    assert err.count("looks like") == (kind is not None)
    if kind:
        warning = f"t: looks like {kind} but is read as plain text, one sentence a line; if it is {kind}, {advice}"
        assert f"warning: {warning}\n" in err


TO_HTML = (
    "its marks are read as words; convert it to HTML, for example with pandoc; `nmt translate` translates HTML as a "
    "document if -o is given"
)
TAKE_OUT = "its marks are read as words; write its texts into a file, one a line"


@pytest.mark.parametrize(
    ("name", "kind", "advice"),
    [
        ("README.md", "Markdown", TO_HTML),
        ("a.rst", "reStructuredText", TO_HTML),
        ("a.tex", "LaTeX", TO_HTML),
        ("de.JSON", "JSON", TAKE_OUT),
        ("de.yml", "YAML", TAKE_OUT),
        ("a.txt", None, None),
        ("lines.jsonl", None, None),
        ("train.md.en", None, None),
    ],
)
def test_a_document_that_only_its_name_tells_is_warned_of(here, name, kind, advice):
    (here / name).write_text('{\n"a": "b"\n}\n', encoding="utf-8")
    code, _, err = nmt("score", name, "--reference", name, "--metric", "chrf")
    assert code == 0, err
    wanted = (
        f"warning: {name}: looks like {kind} but is read as plain text, one sentence a line; if it is {kind}, {advice}"
    )
    assert err.splitlines() == ([wanted] if kind else [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"caf\xe9 one\nth\xe9 two\n" * 40, "odd.en:1: is not valid UTF-8"),
        (
            b"\r".join(b"line %d" % number for number in range(80)),
            "odd.en: its lines end in CR only, so it would be one",
        ),
    ],
)
def test_training_text_in_an_old_encoding_or_with_cr_line_ends_is_refused(here, model, content, message):
    (here / "odd.en").write_bytes(content)
    (here / "fine.fr").write_text("ligne\n" * 80, encoding="utf-8")
    sets = [f"data.train.0.source={here / 'odd.en'}", f"data.train.0.target={here / 'fine.fr'}", "model_dir=run"]
    for command in (
        ("init", "--source", "odd.en", "--target", "fine.fr", *LANGUAGES, "-o", "x.yaml"),
        *((name, "--config", model / "config.yaml", *(word for value in sets for word in ("--set", value)))
          for name in ("check", "train")),
    ):  # fmt: skip
        code, _, err = nmt(*command)
        assert (code, message in err, "`nmt import`" in err) == (2, True, True), (command, err)
    assert not os.path.exists("x.yaml")


def test_init_writes_the_pairs_beside_a_directory_of_the_same_name(here):
    (here / "data").mkdir()
    (here / "table.tsv").write_text(TABLE, encoding="utf-8")
    code, _, err = nmt("init", "--pairs", "table.tsv", *LANGUAGES, "-o", "data.yaml")
    assert code == 0, err
    assert {"data.en", "data.fr", "data.yaml"} <= set(names(here))
    assert names(here / "data") == []


def test_init_refuses_an_old_encoding_that_begins_late(here):
    (here / "late.en").write_bytes(b"plain words\n" * 9000 + b"caf\xe9\n" * 900)
    (here / "fine.fr").write_text("ligne\n" * 9900, encoding="utf-8")
    code, _, err = nmt("init", "--source", "late.en", "--target", "fine.fr", *LANGUAGES, "-o", "x.yaml")
    assert (code, names(here)) == (2, ["fine.fr", "late.en"])
    assert "900 of 9,900 pairs are not valid UTF-8, so a file is probably in another encoding" in err


def test_text_in_one_language_is_written_alone(here):
    (here / "page.html").write_text("<p>The <b>red</b> car</p>\n<p>The cat</p>\n", encoding="utf-8")
    code, _, err = nmt("import", "page.html", "-o", "text", "--lang", "en")
    assert (code, (here / "text.en").read_text()) == (0, "The red car\nThe cat\n")
    assert "2 lines written to text.en" in err
    assert (here / "text.report.json").is_file()
    code, _, err = nmt("import", "page.html", "-o", "more", "--source-lang", "en")
    assert code == 2
    assert "give --source-lang XX and --target-lang YY, or --lang XX for text in one language" in err
