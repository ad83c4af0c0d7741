"""The formats that have one reader for `nmt import` and `nmt translate`."""

from __future__ import annotations

from nmt_cli.formats.html import Page
from nmt_cli.formats.paragraphs import Paragraphs
from nmt_cli.formats.po import Catalogue
from nmt_cli.formats.recognise import ENDINGS as ENDINGS
from nmt_cli.formats.segments import Content
from nmt_cli.formats.subtitles import Subtitles
from nmt_cli.formats.xliff import Units

READERS: dict[str, type[Content]] = {
    "HTML": Page,
    "PO": Catalogue,
    "SRT": Subtitles,
    "VTT": Subtitles,
    "XLIFF": Units,
    "text": Paragraphs,
}
"""The reader of each format, by the name that messages give it."""
