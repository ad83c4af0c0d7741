"""References to characters, as HTML and XML have them: `&amp;`, `&#8217;`."""

from __future__ import annotations

import html
import re

ENDLESS = re.compile(r"(&#[0-9]{1000,};?)")
"""A reference that stands for no character. Python refuses to read such a number."""


def unescape(text: str) -> str:
    """Return a text with the characters for its references; those that are `ENDLESS` stay."""
    if "&" not in text:
        return text
    return "".join(part if place % 2 else html.unescape(part) for place, part in enumerate(ENDLESS.split(text)))
