"""The formats that have one reader for `nmt import` and `nmt translate`."""

from __future__ import annotations

from nmt_cli.formats.po import Catalogue
from nmt_cli.formats.segments import Content
from nmt_cli.formats.subtitles import Subtitles

CONTENTS: dict[str, type[Content]] = {"PO": Catalogue, "SRT": Subtitles, "VTT": Subtitles}
"""The reader of each format, by the name that messages give it."""
ENDINGS = {".po": "PO", ".pot": "PO", ".srt": "SRT", ".vtt": "VTT"}
"""The format of each ending of a name, for a document that is translated."""
