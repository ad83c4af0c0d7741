"""Files that LibreOffice, translate-toolkit, gettext, iconv, xz, zstd and zip wrote: no pair of them is lost."""

import csv
import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest

from nmt_cli.assembly.imported_pairs import import_pairs
from nmt_cli.formats.languages import Languages
from nmt_cli.formats.members import Settings

pytestmark = pytest.mark.slow
PAIRS = [
    *((f"The cat number {number} is here.", f"Le chat numéro {number} est là.") for number in range(40)),
    ('He said "stop".', "Il a dit « stop »."), ("two\nlines", "deux\nlignes"), ("a, b; c", "d, e; f"),
    ("<b>bold</b> & more", "<b>gras</b> & plus"), ("=1+1 is no formula", "=1+1 n'en est pas une"), ("=", "égal"),
    ("  blanks  within  ", "  des  blancs  "), ("tab\there", "tabulation\tici"), ("'quoted'", "'cité'"),
    ("no target", ""), ("", "pas de source"), ("12", "douze"), ("end", "fin"),
]  # fmt: skip
KEPT = [tuple(side.replace("\n", " ") for side in pair) for pair in PAIRS if all(pair)]


def need(program):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    return program


def run(*command, **more):
    subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=300, **more)


def pairs_of(*paths, **settings):
    prefix = paths[0].parent / f"{paths[0].name}.made"
    made = import_pairs([str(path) for path in paths], str(prefix), Settings(Languages("en", "fr"), **settings))
    sides = [path.read_bytes().decode().split("\n")[:-1] for path in (made.source, made.target)]
    return list(zip(*sides, strict=True)), json.loads(made.report.read_text(encoding="utf-8"))


@pytest.fixture
def table(tmp_path):
    """All pairs as a CSV in UTF-8, which LibreOffice reads, with all cells as text."""
    path = tmp_path / "pairs.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("English", "French"), *PAIRS])
    return path


CALC = {
    "xlsx": "xlsx:Calc MS Excel 2007 XML",
    "ods": "ods",
    "fods.csv": "csv:Text - txt - csv (StarCalc):44,34,76,1",
    "utf16.csv": "csv:Text - txt - csv (StarCalc):9,34,65535,1",
    "cp1252.csv": "csv:Text - txt - csv (StarCalc):59,34,1,1",
}
"""Endings, and the filters of LibreOffice that write them: separator, quote, encoding, first line."""


@pytest.mark.parametrize("ending", CALC)
def test_spreadsheets_of_libreoffice(tmp_path, table, ending):
    made = tmp_path / "made"
    as_text = "44,34,76,1,1/2/2/2,0,true,false"
    run(
        need("soffice"), f"-env:UserInstallation=file://{tmp_path}/profile", "--headless",
        f"--infilter=Text - txt - csv (StarCalc):{as_text}", "--convert-to", CALC[ending], "--outdir", made, table,
    )  # fmt: skip
    (path,) = made.iterdir()
    pairs, report = pairs_of(path)
    assert pairs == KEPT
    assert report["skipped"] == {"empty target": 1, "empty source": 1}


@pytest.fixture
def catalogue(tmp_path):
    """All pairs with a source, as PO of polib."""
    polib = pytest.importorskip("polib")
    made = polib.POFile()
    made.metadata = {"Language": "fr", "Content-Type": "text/plain; charset=UTF-8", "Content-Transfer-Encoding": "8bit"}
    for source, target in PAIRS:
        # gettext refuses a message where one side alone ends in a newline, and so there is none.
        if source:
            made.append(polib.POEntry(msgid=source, msgstr=target))
    made.save(str(tmp_path / "m.po"))
    return tmp_path / "m.po"


def test_catalogues_of_gettext(tmp_path, catalogue):
    for number, options in enumerate((("-w", "20"), ("--no-wrap", "-e"), ("-t", "ISO-8859-1"), ("--sort-output",))):
        path = tmp_path / f"{number}.po"
        run(need("msgcat"), catalogue, "-o", path, *options)
        pairs, report = pairs_of(path)
        assert sorted(pairs) == sorted(KEPT)
        assert report["skipped"] == {"empty target": 1}


@pytest.mark.parametrize("program", ["po2tmx", "po2xliff", "po2csv"])
def test_documents_of_translate_toolkit(tmp_path, catalogue, program):
    if importlib.util.find_spec("translate") is None:
        pytest.skip("translate-toolkit is not installed")
    path = tmp_path / {"po2tmx": "m.tmx", "po2xliff": "m.xlf", "po2csv": "m.csv"}[program]
    options = ("-l", "fr") if program == "po2tmx" else ()
    run(sys.executable, "-m", f"translate.convert.{program}", *options, catalogue, path)
    pairs, report = pairs_of(path)
    if program == "po2csv":  # it puts an apostrophe before what a spreadsheet would take for a formula
        pairs = [tuple(side.removeprefix("'") if side[1:2] == "=" else side for side in pair) for pair in pairs]
    # A memory is written without the units that have no target, and without the blanks around a text.
    assert [tuple(map(str.strip, pair)) for pair in pairs] == [tuple(map(str.strip, pair)) for pair in KEPT]
    assert sum(report["skipped"].values()) == (0 if program == "po2tmx" else 1), report["skipped"]


@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-16LE", "UTF-32", "CP1252", "ISO-8859-1"])
def test_tables_of_iconv(tmp_path, encoding):
    path = tmp_path / "t.tsv"
    kept = [pair for pair in PAIRS if not any(c in side for side in pair for c in "\t\n")]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in kept), encoding="utf-8")
    with (tmp_path / "made.tsv").open("wb") as out:
        subprocess.run([need("iconv"), "-f", "UTF-8", "-t", encoding, path], check=True, stdout=out)
    pairs, report = pairs_of(tmp_path / "made.tsv")
    assert pairs == [pair for pair in kept if all(pair)]
    assert report["pairs"] + sum(report["skipped"].values()) == len(kept)


@pytest.mark.parametrize(
    "command", [("gzip", "-k"), ("xz", "-k"), ("zstd",), ("bzip2", "-k"), ("zip", "-q", "t.zip")], ids=lambda c: c[0]
)
def test_archives_of_other_programs(tmp_path, command):
    need(command[0])
    (tmp_path / "t.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS[:40]), encoding="utf-8")
    if command[0] == "zstd":
        pytest.importorskip("zstandard")
    run(*command, "t.tsv", cwd=tmp_path)
    (packed,) = (path for path in tmp_path.iterdir() if path.name != "t.tsv")
    assert pairs_of(packed)[0] == PAIRS[:40]


GENERATOR = """
import sys
kind, count = sys.argv[1], int(sys.argv[2])
print('<tmx version="1.4"><body>' if kind == "tmx" else "", end="")
for n in range(count):
    pair = f"This is sentence number {n}.", f"C'est la phrase num\\u00e9ro {n}."
    print("\\t".join(pair) if kind == "tsv" else
          "<tu><tuv xml:lang='en'><seg>%s</seg></tuv><tuv xml:lang='fr'><seg>%s</seg></tuv></tu>" % pair)
print("</body></tmx>" if kind == "tmx" else "")
"""
PEAK = """
import resource, sys
from nmt_cli.assembly.imported_pairs import import_pairs
from nmt_cli.formats.members import Settings
from nmt_cli.formats.languages import Languages
import_pairs([sys.argv[1]], sys.argv[2], Settings(Languages("en", "fr")))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["tsv", "tmx"])
def test_memory_does_not_grow_with_the_number_of_pairs(tmp_path, kind):
    peaks = []
    for count in (1_000, 300_000):
        path = tmp_path / f"{count}.{kind}"
        with path.open("wb") as out:
            environment = os.environ | {"PYTHONIOENCODING": "utf-8"}
            subprocess.run([sys.executable, "-c", GENERATOR, kind, str(count)], stdout=out, env=environment, check=True)
        made = subprocess.run(
            [sys.executable, "-c", PEAK, path, tmp_path / f"{count}"], capture_output=True, text=True, check=True
        )  # fmt: skip
        peaks.append(int(made.stdout))
        assert (tmp_path / f"{count}.fr").read_bytes().count(b"\n") == count
    assert peaks[1] < peaks[0] + 12_000, peaks  # kilobytes; the large text alone is ten times that
