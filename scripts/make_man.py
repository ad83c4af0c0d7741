"""Writes manual pages and completion scripts from the commands themselves, so that they say what `--help` says.

`python scripts/make_man.py DIRECTORY` fills DIRECTORY/share as an installation has it: man/man1/nmt.1 and one page for
each command, bash-completion/completions/nmt, zsh/site-functions/_nmt and fish/vendor_completions.d/nmt.fish.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from nmt_cli.cli import app
from nmt_cli.version import __version__

COMPLETIONS = {
    "bash": "bash-completion/completions/nmt",
    "zsh": "zsh/site-functions/_nmt",
    "fish": "fish/vendor_completions.d/nmt.fish",
}
EXIT_STATUS = """
.TP
.B 0
The command has done its work.
.TP
.B 1
It failed while running: no space, a training that diverges, or a fault of the program.
.TP
.B 2
The input is wrong: an option, a configuration, a file, a model, or a device.
.TP
.B 129, 130, 143
It was ended by SIGHUP, SIGINT (Ctrl-C) or SIGTERM. A training has saved a checkpoint.
.TP
.B 141
The reader of its output has gone.
"""
ENVIRONMENT = """
.TP
.B NMT_MODEL
The model directory of commands that are given none.
.TP
.B COLUMNS
The width of help.
.TP
.B OMP_NUM_THREADS
The number of threads of a training.
"""


def main() -> None:
    """Write everything below the directory that the command line names."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("directory", type=Path)
    share = parser.parse_args().directory / "share"
    for name, page in pages().items():
        write(share / "man/man1" / f"{name}.1", page)
    for shell, place in COMPLETIONS.items():
        write(share / place, completion(shell))


def write(path: Path, text: str) -> None:
    """Write a text file, and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def completion(shell: str) -> str:
    """Return the completion script of a shell, as the program prints it."""
    command = [sys.executable, "-m", "nmt_cli"]
    script = subprocess.run(
        command, env={**os.environ, "_NMT_COMPLETE": f"source_{shell}"}, capture_output=True, text=True, check=True
    ).stdout.strip()
    # zsh runs a file of its path in place of the function, which must then be called.
    script = re.sub(r"^compdef (\S+) nmt$", r'[ "$funcstack[1]" = _nmt ] && \1 || compdef \1 nmt', script, flags=re.M)
    return f"{script}\n"


def pages() -> dict[str, str]:
    """Return the manual pages by their names."""
    program = typer.main.get_command(app)
    found: dict[str, Any] = {}

    def walk(command: Any, words: list[str], parent: Any) -> None:
        context = command.context_class(command, info_name=words[-1], parent=parent, **command.context_settings)
        found["-".join(words)] = (command, context)
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, [*words, name], context)

    walk(program, ["nmt"], None)
    return {name: page(name, command, context, [*found]) for name, (command, context) in found.items()}


def page(name: str, command: Any, context: Any, all_names: list[str]) -> str:
    """Return the manual page of a command."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    summary = joined(paragraphs[0])
    day = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH") or datetime.now(UTC).timestamp()), UTC)
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [
        f'.TH "{name.upper()}" 1 {day:%Y-%m-%d} "nmt {__version__}" "nmt manual"',
        f".SH NAME\n{escaped(name)} \\- {escaped(summary.rstrip('.'))}",
        f".SH SYNOPSIS\n.B {escaped(context.command_path)}\n{escaped(usage)}",
    ]
    examples = [text for text in paragraphs if text.startswith("Example:")]
    text = [escaped(joined(text)) for text in paragraphs if text not in examples]
    parts.append(".SH DESCRIPTION\n" + "\n.PP\n".join(text))
    for title, records in groups(command, context).items():
        terms = (f".TP\n.B {escaped(term)}\n{escaped(joined(told))}" for term, told in records)
        parts.append(f".SH {title.upper()}\n" + "\n".join(terms))
    if inner := getattr(command, "commands", {}):
        terms = (f".TP\n.B {escaped(one)}\n{escaped(joined(inner[one].short_help or ''))}" for one in inner)
        parts.append(".SH COMMANDS\n" + "\n".join(terms))
    if examples:
        parts.append(".SH EXAMPLES\n" + "\n".join(f".nf\n{escaped(joined(one)[9:])}\n.fi" for one in examples))
    parts.append(f".SH EXIT STATUS{EXIT_STATUS.rstrip()}")
    if name == "nmt":
        parts.append(f".SH ENVIRONMENT{ENVIRONMENT.rstrip()}")
    others = [one for one in all_names if one.startswith(name) or one == "nmt" if one != name]
    parts.append(".SH SEE ALSO\n" + ",\n".join(f".BR {escaped(one)} (1)" for one in others).replace(" (1),", " (1) ,"))
    return "\n".join(parts) + "\n"


def groups(command: Any, context: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the arguments and options with their help, in groups."""
    if hasattr(command, "groups"):
        return dict(command.groups(context))
    records = [record for one in command.get_params(context) if (record := one.get_help_record(context))]
    return {"Options": records}


def joined(text: str) -> str:
    """Return a text in one line."""
    return " ".join(text.split())


def escaped(text: str) -> str:
    """Return a text as roff takes it: hyphens that can be copied, and no line that begins like a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("\N{HORIZONTAL ELLIPSIS}", "...")
    return f"\\&{text}" if text[:1] in (".", "'") else text


if __name__ == "__main__":
    main()
