"""Writes the offline page, one HTML file: the page of `nmt serve` with a translation engine, models and their cards.

Scripts and styles are allowed by their hashes, and nothing else is: no request, no form, no frame. Models are base64 in
elements that no browser runs. Cards are escaped text.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path

from nmt_cli.system.errors import InputError
from nmt_cli.system.files import atomic_path, no_space
from nmt_cli.version import __version__

MODULES = (
    "export/page/sentencepiece.mjs",
    "export/page/plain.mjs",
    "export/page/memory.mjs",
    "export/page/cells.mjs",
    "export/page/attention.mjs",
    "export/page/decoder.mjs",
    "export/page/encoder.mjs",
    "export/page/model.mjs",
    "export/page/search.mjs",
    "export/page/letters.mjs",
    "export/page/repetition.mjs",
    "export/page/word_case.mjs",
    "export/page/normalization.mjs",
    "export/page/translator.mjs",
    "export/page/service.mjs",
)
"""The JavaScript modules of the translation engine, as paths in the package; each comes after its imports."""
SCRIPTS = ("plots/attention_words.js", "serve/engine.js", "export/page/local_engine.js", "serve/page.js")
"""The scripts of the page in order, as paths in the package. `nmt serve` has server_engine.js, not local_engine.js."""
ENGINE_ID = "local-translation"
"""ID of the HTML element with the script of the engine, which the page also runs in a web worker."""
GENERATOR = '<meta name="generator" content="nmt export'
"""Mark in the first lines of the pages that this module writes. A file with it may be replaced."""
_FIRST_BYTES = 4096
_IMPORT = re.compile(r'^import (\{.*\}) from ".*";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:async )?(?:class|const|function\*?) (\w+)", re.MULTILINE)
_PRECISION_NOTE = (
    "<p>This page translates with int8 weights and one translation at a time (beam 1). Of the normalisation of input "
    "it does only capitals and missing full stops. The settings below apply to <code>nmt translate</code>, so its "
    "translations may differ.</p>"
)
_NOT_STARTED = (
    "The translator is being loaded. If this line stays, the browser is too old for it or the file is damaged."
)


@dataclass(frozen=True, slots=True)
class PageModel:
    """A model to put into the page, with its title and model card."""

    packed: bytes
    title: str
    """Directions of the model in words: `German → English`, separated by commas."""
    card: str
    """Model card in Markdown."""


def render(models: Sequence[PageModel]) -> str:
    """Return the HTML of the page with these models."""
    style = _package_text("serve/page.css") + _package_text("export/page/offline.css")
    scripts = [(f' id="{ENGINE_ID}"', engine_script()), *(("", _package_text(name)) for name in SCRIPTS)]
    elements = [f"<script{attributes}>{text}</script>" for attributes, text in scripts]
    kernels = resources.files("nmt_cli").joinpath("export/page/kernels.wasm").read_bytes()
    # Last, so that a file that is cut off still has the scripts, which say so.
    data = [_data('id="kernels"', kernels), *(_data('class="model"', model.packed) for model in models)]
    titles = ", ".join(model.title for model in models)
    page = _package_text("serve/page.html")
    for pattern, text in (
        (r'(<meta charset="utf-8">)', _head(style, [text for _, text in scripts])),
        (r"<title>[^<]*</title>", f"<title>Translate {escape(titles)}</title>"),
        (r'<link rel="stylesheet"[^>]*>', f"<style>{style}</style>"),
        (r"<body>", f'<body data-models="{len(models)}">'),
        (r'(<p[^>]* id="status"[^>]*>)', _NOT_STARTED),
        (r"()(?=</main>)", "".join(map(_card, models))),
        (r'(?:<script src="[^"]*"></script>\n)+', "\n".join([*elements, *data, ""])),
    ):
        page = _substitute(page, pattern, text)
    return page


def _substitute(page: str, pattern: str, text: str) -> str:
    """Return the page with the first match of a regular expression replaced by its group 1, if any, and `text`."""
    match = re.search(pattern, page)
    assert match is not None, pattern
    kept = match[1] if match.re.groups else ""
    return f"{page[: match.start()]}{kept}{text}{page[match.end() :]}"


def _head(style: str, scripts: Sequence[str]) -> str:
    policy = (
        f"default-src 'none'; script-src 'wasm-unsafe-eval' {' '.join(map(_hash, scripts))}; "
        f"style-src {_hash(style)}; img-src data:; worker-src blob:; base-uri 'none'; form-action 'none'"
    )
    return (
        f'\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'{GENERATOR} {__version__}">\n<meta name="referrer" content="no-referrer">'
    )


def _card(model: PageModel) -> str:
    summary = f"<summary>About the model {escape(model.title)}</summary>"
    return f'<details class="about">{summary}{_PRECISION_NOTE}<pre>{escape(model.card)}</pre></details>\n'


def check_replaceable(path: Path) -> None:
    """Check that a page can be written to `path`: nothing is there, or a file that `nmt export` has written.

    Raises:
        InputError: anything else is there, there is no such directory, or the file cannot be read.
    """
    message = f"{path}: exists already and is not a page of nmt export, so it is not replaced; give another name"
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a directory; give the name of a file that ends in .html")
        if not path.parent.is_dir():
            raise InputError(f"{path.parent}: there is no such directory; make it first")
        if path.exists() and not path.is_file():
            raise InputError(message)
        if path.exists() or path.is_symlink():
            with path.open("rb") as file:
                if GENERATOR.encode() not in file.read(_FIRST_BYTES):
                    raise InputError(message)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from error


def write(models: Sequence[PageModel], path: Path) -> int:
    """Write the page, whole or not at all, and return its size in bytes.

    Raises:
        InputError: it cannot be written there.
        NmtError: the disk is full.
    """
    check_replaceable(path)
    content = render(models).encode("utf-8", errors="backslashreplace")
    try:
        with atomic_path(Path(os.path.realpath(path))) as temporary:  # a link to a page stays one
            temporary.write_bytes(content)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise no_space(error) or InputError(f"{path}: cannot be written: {reason}") from error
    return len(content)


def _package_text(name: str) -> str:
    return resources.files("nmt_cli").joinpath(name).read_text(encoding="utf-8")


def engine_script() -> str:
    """Return the modules of the engine as one script, since a page from disk may not import modules.

    The script defines one name, `LocalTranslation`, an object with all that the modules export.
    """
    parts = ['"use strict";\nconst LocalTranslation = {};\n']
    for name in MODULES:
        text = _IMPORT.sub(r"const \1 = LocalTranslation;", _package_text(name))
        names = ", ".join(_EXPORT.findall(text))
        body = text.replace("\nexport ", "\n")
        parts.append(f"(() => {{\n{body}Object.assign(LocalTranslation, {{ {names} }});\n}})();\n")
    return "".join(parts)


def _hash(text: str) -> str:
    """Return the SHA-256 of a script or a style as a source of a content security policy: `'sha256-...'`."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data(attributes: str, content: bytes) -> str:
    """Return a script element that no browser runs, with bytes in base64, their size and their CRC-32."""
    numbers = f'data-size="{len(content)}" data-crc="{zlib.crc32(content)}"'
    text = base64.b64encode(content).decode()
    return f'<script type="application/octet-stream" {attributes} {numbers}>{text}</script>'
