"""The pages: links lead somewhere, and the commands in them exist with their options."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
import typer

from nmt_cli.cli import app

ROOT = Path(__file__).parents[2]
LISTED = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
PAGES = sorted({path for path in LISTED.splitlines() if (ROOT / path).exists()} or {"README.md"})
USER_PAGES = [path for path in PAGES if re.match(r"README|docs/(howto/|reference/(?!removed)|[^/]+\.md)", path)]
CODE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
OF_OTHERS = {"docs/car.md", "docs/benchmarks_v1.md"}
"""Pages that the code names and that are not ours: an example, and one of JoeyNMT."""
COMMANDS = typer.main.get_command(app)


@cache
def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def prose(path: str) -> str:
    return re.sub(r"`[^`\n]*`", "", CODE.sub("", text_of(path)))


@cache
def anchors(path: str) -> set[str]:
    """The names by which other pages link to the headings of a page, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", text_of(path)), flags=re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("path", PAGES)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(path: str):
    broken = []
    for target in re.findall(r"\]\(([^()\s]*)\)", prose(path)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        led_to = (ROOT / path).parent / file if file else ROOT / path
        if not led_to.exists():
            broken.append(target)
        elif anchor and led_to.suffix == ".md":
            other = str(led_to.resolve().relative_to(ROOT))
            if anchor not in anchors(other):
                broken.append(target)
    assert not broken


def test_every_page_that_the_code_names_exists():
    """In messages, help texts and comments."""
    sources = [*ROOT.glob("nmt_cli/**/*.py"), *ROOT.glob("configs/**/*.yaml"), *ROOT.glob("nmt_cli/**/*.html")]
    named = {found for path in sources for found in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text("utf-8"))}
    assert {page for page in named - OF_OTHERS if not (ROOT / page).exists()} == set()


def commands_in(path: str) -> list[list[str]]:
    """Return the words of each command of `nmt` in the code blocks and the inline code of a page."""
    lines = [line for kind, block in CODE.findall(text_of(path)) if kind in ("sh", "console", "") for line in
             re.sub(r" *\\\n *", " ", block).splitlines()]  # fmt: skip
    lines += re.findall(r"`(nmt [^`]*)`", CODE.sub("", text_of(path)).replace("\n", " "))
    parts = [part for line in lines for part in re.split(r"[|;]|&&|\$\(", line.split(" #")[0])]
    return [part.split() for part in parts if re.match(r"\s*(\$ )?nmt [a-z]", part)]


@pytest.mark.parametrize("path", USER_PAGES)
def test_the_commands_on_a_page_have_the_options_that_it_gives_them(path: str):
    unknown = []
    for words in commands_in(path):
        names = words[words.index("nmt") + 1 :]
        command = COMMANDS
        while hasattr(command, "commands") and names and names[0] in command.commands:
            command = command.commands[names.pop(0)]
        if hasattr(command, "commands") and names:
            unknown.append(names[0])
        known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}
        unknown += [word for word in names if re.match(r"--[a-z]", word) and word.split("=")[0] not in known]
    assert not unknown
