"""Files that other programs wrote, with a translator that changes nothing: what comes back are the same bytes."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from document_translators import SPLIT, unchanged

from benchmarks.documents import with_sources_copied
from nmt_cli.documents.document import translate_document
from nmt_cli.system.errors import InputError

PAGES = ("/usr/share/doc", "/usr/share/gtk-doc", "/usr/lib/node_modules", sys.prefix)
NUM_FILES = 80


def some(paths) -> list[Path]:
    found = sorted(path for path in paths if path.is_file() and path.stat().st_size < 200_000)
    return random.Random(1).sample(found, min(NUM_FILES, len(found)))


def has_known_encoding(page: bytes) -> bool:
    """Return False of a page in an encoding that it does not declare: it comes back in UTF-8."""
    try:
        page.decode("utf-8")
    except UnicodeDecodeError:
        return b"charset=" in page[:1024].lower()
    return True


@pytest.mark.slow
def test_pages_of_this_machine_come_back_unchanged():
    found = some(path for root in PAGES for path in Path(root).rglob("*.html"))
    paths = [path for path in found if has_known_encoding(path.read_bytes())]
    if not paths:
        pytest.skip("no HTML on this machine")
    num_refused = 0
    for path in paths:
        data = path.read_bytes()
        try:
            assert translate_document(str(path), data, unchanged, SPLIT, target_lang=None).content == data, path
        except InputError:
            num_refused += 1
    assert num_refused <= len(paths) // 20


@pytest.mark.slow
def test_catalogues_of_this_machine_come_back_unchanged(tmp_path: Path):
    """Their translations are first replaced by the sources."""
    if shutil.which("msgunfmt") is None:
        pytest.skip("needs gettext")
    paths = some(path for root in ("/usr/share/locale", sys.prefix) for path in Path(root).rglob("*.mo"))
    if not paths:
        pytest.skip("no catalogues on this machine")
    num_same = 0
    for path in paths:
        catalogue = tmp_path / "a.po"
        subprocess.run(["msgunfmt", "-o", catalogue, path], check=True, capture_output=True)
        data = with_sources_copied(catalogue)
        done = translate_document("a.po", data, unchanged, SPLIT, target_lang=None, overwrite=True).content
        num_same += done == data
    assert num_same == len(paths)
