"""Assembles the commands; an `NmtError` becomes a message on stderr and an exit code. No logic."""

from __future__ import annotations

import errno
import inspect
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any, NoReturn, TextIO

import typer

from nmt_cli.assembly.versions import described_versions
from nmt_cli.commands import COMMANDS, GROUPS
from nmt_cli.commands.options import Command, Quiet
from nmt_cli.system import console, signals
from nmt_cli.system.errors import InputError, NmtError
from nmt_cli.system.files import no_space


def _summary(command: Callable[..., Any] | None) -> str:
    """Return the first paragraph of a command's docstring as one line; typer itself would shorten it in `--help`."""
    return " ".join((inspect.getdoc(command) or "").partition("\n\n")[0].split())


def _with_quiet(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with one more option, `--quiet`."""

    @wraps(command)
    def run(*arguments: Any, quiet: bool = False, **options: Any) -> Any:
        if quiet:
            console.be_quiet()
        return command(*arguments, **options)

    signature = inspect.signature(command, eval_str=True)
    quiet = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)
    parameters = [*signature.parameters.values(), quiet]
    changed: Any = run
    changed.__signature__ = signature.replace(parameters=parameters)
    changed.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


app = typer.Typer(
    name="nmt",
    help="Recurrent neural machine translation with attention, for the command line.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for _name, _command in COMMANDS.items():
    app.command(_name, short_help=_summary(_command))(_with_quiet(_command))
for _name, _group in GROUPS.items():
    for _registered in _group.registered_commands:
        if _registered.callback is not None:
            _registered.short_help = _summary(_registered.callback)
            _registered.callback = _with_quiet(_registered.callback)
    app.add_typer(_group, name=_name, short_help=_group.info.help)
_PATH_ERRORS = (errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EROFS)
"""Error numbers of the operating system that mean that the user gave a path that is wrong or not allowed."""


def _show_version(asked: bool) -> None:
    if asked:
        print(described_versions())
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the versions of nmt and torch, the kernels and the processor, and exit.",
            callback=_show_version,
            is_eager=True,
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    del version  # the callback has shown it
    if quiet:
        console.be_quiet()


for _registered in (*app.registered_commands, *(one for group in GROUPS.values() for one in group.registered_commands)):
    _registered.cls = Command


def main() -> None:
    """Run the command in `sys.argv` and exit the process with its code: 0 for success, else that of the error."""
    with signals.raise_on_signal():
        _prepare_streams()
        console.reset()
        code = _run()
    if os.environ.get("WORLD_SIZE", "") not in ("", "1"):
        _exit_at_once(code)
    sys.exit(code)


def _prepare_streams() -> None:
    """Make the standard streams write UTF-8, and open the null device in place of each one that is closed.

    Otherwise the next file that is opened would get the number of the closed stream, and messages would go into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stdout is None:
        sys.stdout = _ClosedOutput()
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)
    if sys.stderr.isatty():
        messages = io.BufferedWriter(_Terminal(sys.stderr.fileno(), "wb", closefd=False))
        sys.stderr = io.TextIOWrapper(messages, encoding="utf-8", errors="backslashreplace", line_buffering=True)


class _Terminal(io.FileIO):
    """Standard error on a terminal. Once the terminal is closed, messages are dropped instead of raising an error.

    So a training can still save its checkpoint, or go on if it was started to ignore SIGHUP.
    """

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return memoryview(data).nbytes


class _ClosedOutput(io.StringIO):
    """Replaces a standard output that the caller has closed: a write raises `InputError`, so no data is lost unseen."""

    @property
    def buffer(self) -> NoReturn:
        """The stream for bytes. Reading this property raises `InputError`, because there is none."""
        raise InputError("standard output is closed")

    def fileno(self) -> int:
        """Return 1, the file descriptor of standard output, which is open on the null device."""
        return 1

    def write(self, _: str) -> NoReturn:
        raise InputError("standard output is closed")


def _run() -> int:
    try:
        code = _run_command()
        sys.stdout.flush()
        return code
    except NmtError as error:
        if str(error):
            _print_error(f"nmt: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return signals.exit_code(signal.SIGINT)
    except signals.SignalExit as ended:
        return ended.acknowledge()
    except BrokenPipeError:
        return _handle_broken_pipe()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = (
            f"{error.filename}: {reason}" if error.filename else f"reading or writing failed: {reason}; check the disk"
        )
        failed = no_space(error) or (InputError(message) if error.errno in _PATH_ERRORS else NmtError(message))
        _print_error(f"nmt: {failed}")
        return failed.exit_code
    except (MemoryError, RuntimeError) as error:
        from nmt_cli.system.memory import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        _print_error(
            "nmt: out of memory. Take a smaller model or batch, or shorten the longest lines "
            "(data.max_length, decoding.max_source_pieces)"
        )
        return NmtError.exit_code


def _run_command() -> int:
    """Run the command in `sys.argv` and return its exit code, which is 2 for options that typer has refused.

    `nmt help COMMAND` is another way to write `nmt COMMAND --help`.
    """
    words = sys.argv[1:]
    try:
        app(words if words[:1] != ["help"] else _help_arguments(words[1:]), prog_name="nmt")
    except signals.SignalExit:
        raise
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer ends with 1 when a pipe breaks
            raise end.__context__ from None
        return end.code if isinstance(end.code, int) else 0
    return 0


def _help_arguments(words: Sequence[str]) -> list[str]:
    """Return the arguments that show the help of the command in `words`; of all commands if there is none."""
    names = [] if words == ["help"] else [word for word in words if not word.startswith("-")]
    most = 2 if names[:1] and names[0] in GROUPS else 1
    if len(names) > most:
        raise InputError(f"nmt help takes one command, so leave out: {' '.join(names[most:])}")
    return [*names, "--help"]


def _exit_at_once(code: int) -> NoReturn:
    """Flush the output and end the process without the shutdown of the interpreter.

    In a training of several processes, threads of gloo (the communication of torch) may still free tensors. If the
    interpreter shuts down meanwhile, it ends such a thread, and the process aborts with another exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _print_error(message: str) -> None:
    """Print an error message on standard error; drop it if the reader of standard error has gone."""
    try:
        print(message, file=sys.stderr)
    except BrokenPipeError:
        _redirect_to_null(sys.stderr)


def _handle_broken_pipe() -> int:
    """Return the exit code of SIGPIPE, after redirecting each output stream whose reader has gone to /dev/null."""
    _redirect_to_null(sys.stdout)
    try:
        sys.stderr.flush()
    except BrokenPipeError:
        _redirect_to_null(sys.stderr)
    return signals.exit_code(signal.SIGPIPE)


def _redirect_to_null(stream: TextIO) -> None:
    """Redirect a stream to /dev/null, so that the flush of its buffer at exit no longer fails."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
