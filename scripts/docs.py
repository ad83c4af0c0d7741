"""Writes the generated pages of docs/reference, and checks them; also the hooks of `mkdocs.yml`.

`python scripts/docs.py` writes the pages, and `python scripts/docs.py --check` exits with 1 if one is out of date.
`mkdocs` loads this file too: pages that stand outside `docs/`, such as the README, are then part of the site.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs/reference"
OUTSIDE = {
    "README.md": "project/overview.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "data/README.md": "project/corpora.md",
}
"""Pages outside `docs/`, and their places in the site."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^()\s#]*)(#[^()\s]*)?\)")
WORDS = {
    "integer": "a whole number", "number": "a number", "string": "text", "boolean": "`true` or `false`",
    "null": "nothing (`null`)", "object": "names with values",
}  # fmt: skip
"""The types of JSON Schema, for people."""
UNBOUNDED = 1_000_000_000
"""Limits from here on keep numbers storable, and no reader asks about them."""
MADE = "<!-- Written by scripts/docs.py. To change this page, change {source} and run the script. -->\n\n"


def configuration_page() -> str:
    """Return the page that describes each key of a configuration, made from the JSON Schema."""
    from nmt_cli.config.loader import json_schema

    schema = json.loads(json_schema())
    page = [MADE.format(source="the docstrings in nmt_cli/config"), "# Configuration\n\n", _INTRODUCTION]
    waiting = [("", schema)]
    while waiting:
        path, section = waiting.pop(0)
        page += [f"## `{path}`\n\n" if path else "## The top level\n\n"]
        page += [_one_line(section["description"]) + "\n\n"] if path and "description" in section else []
        page += ["| key | value | default | meaning |\n|---|---|---|---|\n"]
        inner = []
        for name, key in section["properties"].items():
            page.append(f"| `{name}` | {_value(key)} | {_default(key)} | {_one_line(key.get('description', ''))} |\n")
            references = re.findall(r'"#/\$defs/(\w+)"', json.dumps(key))
            mark = "[]" if _is_list(key) else ""
            inner += [(f"{path}.{name}{mark}".removeprefix("."), schema["$defs"][one]) for one in references[:1]]
        waiting = [one for one in inner if "properties" in one[1]] + waiting
        page.append("\n")
    return "".join(page).rstrip() + "\n"


_INTRODUCTION = """A configuration is a YAML file. `nmt init` writes one with the keys that matter for your text; this
page lists all keys. `--set KEY=VALUE` changes a key for one command: `--set training.max_epochs=3`. Entries of lists
are numbered from 0: `--set data.train.0.weight=2.0`. A section as the value, as in `--set 'training={max_steps: 5}'`,
replaces the whole section of the file. YAML's anchors, aliases and merge keys (`<<`) may be used. Keys that a file
does not name keep their defaults. `nmt train --config FILE --dry-run` prints the whole configuration.

`nmt schema > nmt.schema.json` writes the same as JSON Schema, with which editors complete keys and mark mistakes.
Relative paths are relative to the directory in which you call `nmt`. In the headings of this page, `[]` stands for the
entries of a list.

"""


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _is_list(key: dict[str, Any]) -> bool:
    return any(one.get("type") == "array" for one in (key, *key.get("anyOf", ())))


def _value(key: dict[str, Any]) -> str:
    """Return in words what may stand after the key."""
    if forms := key.get("anyOf") or key.get("oneOf"):
        return " or ".join(dict.fromkeys(_value(one) for one in forms))
    if "enum" in key:
        return ", ".join(f"`{one}`" for one in key["enum"])
    if "const" in key:
        return f"`{key['const']}`"
    if "$ref" in key:
        return "keys below"
    if key.get("type") == "array":
        return f"a list of {_value(key.get('items', {}))}" if "$ref" not in key.get("items", {}) else "a list"
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    given = {sign: key[bound] for bound, sign in signs.items() if abs(key.get(bound, UNBOUNDED)) < UNBOUNDED}
    bounds = [f"{sign} {bound:,}".removesuffix(".0") for sign, bound in given.items()]
    return ", ".join([WORDS.get(key.get("type", ""), "a value"), *bounds])


def _default(key: dict[str, Any]) -> str:
    if "default" not in key:
        return "" if "$ref" in key else "needed"
    return f"`{json.dumps(key['default'], ensure_ascii=False)}`" if not isinstance(key["default"], dict) else ""


def commands_page() -> str:
    """Return the page with the help of every command, as a terminal of 80 columns shows it."""
    from typer.testing import CliRunner

    from nmt_cli.cli import app
    from nmt_cli.commands import COMMANDS, GROUPS

    inner = []
    for group, typed in GROUPS.items():
        inner += [group, *(f"{group} {one.name or _name_of(one.callback)}" for one in typed.registered_commands)]
    page = [
        MADE.format(source="the docstring and the options in nmt_cli/commands"), "# Commands\n\n",
        "This page shows `nmt COMMAND --help` of every command. [Examples](examples.md) shows each at work.\n\n",
        "`nmt --install-completion` teaches your shell to complete commands and options.\n\n",
    ]  # fmt: skip
    for name in ["", *COMMANDS, *inner]:
        ran = CliRunner().invoke(
            app,
            [*name.split(), "--help"],
            prog_name="nmt",
            env={"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1"},
        )
        if ran.exit_code:
            raise RuntimeError(f"nmt {name} --help exits with {ran.exit_code}: {ran.output}")
        help_text = "\n".join(line.rstrip() for line in ran.output.strip().splitlines())
        page.append(f"## nmt {name}".rstrip() + f"\n\n```text\n{help_text}\n```\n\n")
    return "".join(page).rstrip() + "\n"


def _name_of(command: Any) -> str:
    """Return the name that typer gives to a command without one, from the name of its function."""
    return str(command.__name__).lower().replace("_", "-")


PAGES = {"configuration.md": configuration_page, "commands.md": commands_page}


def in_site(repository_path: str) -> str | None:
    """Return the place in the site of a file of the repository, or None if the site does not have it."""
    return OUTSIDE.get(repository_path) or (
        repository_path.removeprefix("docs/") if repository_path.startswith("docs/") else None
    )


def with_links_of_the_site(markdown: str, repository_path: str) -> str:
    """Return a page whose links lead to other pages of the site; a link to any other file becomes its text."""
    here = posixpath.dirname(repository_path)
    own_place = posixpath.dirname(in_site(repository_path) or "")

    def moved(found: re.Match[str]) -> str:
        mark, words, target, anchor = found[1], found[2], found[3], found[4] or ""
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        path = posixpath.normpath(posixpath.join(here, target))
        path = f"{path}/README.md" if (ROOT / path / "README.md").is_file() else path
        place = in_site(path) if (ROOT / path).is_file() else None
        return f"{mark}[{words}]({posixpath.relpath(place, own_place or '.')}{anchor})" if place else words

    return LINK.sub(moved, markdown)


def on_config(config: Any) -> Any:
    """Append the studies and the decisions to the list of pages (a hook of mkdocs)."""
    for title, folder in (("Studies", "studies"), ("Decisions", "adr")):
        names = sorted(path.name for path in (ROOT / "docs" / folder).glob("*.md"))
        config.nav.append({title: [f"{folder}/{name}" for name in sorted(names, key=lambda name: name != "README.md")]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages outside `docs/` to the site (a hook of mkdocs)."""
    from mkdocs.structure.files import File

    for path, place in OUTSIDE.items():
        files.append(File.generated(config, place, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links to where pages stand in the site (a hook of mkdocs)."""
    outside = {place: path for path, place in OUTSIDE.items()}
    return with_links_of_the_site(markdown, outside.get(page.file.src_uri, f"docs/{page.file.src_uri}"))


def main() -> int:
    """Write the generated pages, or with `--check` name those that are out of date."""
    stale = []
    for name, made in PAGES.items():
        path, page = REFERENCE / name, made()
        if not path.exists() or path.read_text(encoding="utf-8") != page:
            stale.append(path.relative_to(ROOT))
            if "--check" not in sys.argv:
                path.write_text(page, encoding="utf-8")
    if "--check" in sys.argv and stale:
        print(
            *(f"{path} is out of date. Run `python scripts/docs.py` and commit the result." for path in stale), sep="\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
