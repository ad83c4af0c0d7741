"""The command `nmt`, and `python -m nmt_cli`."""

import signal
import sys


def main() -> None:
    """Import the program and run it; a signal during the import ends the process without a traceback."""
    if sys.platform == "win32":
        print("nmt: does not run on Windows; it needs Linux, such as WSL has (wsl --install)", file=sys.stderr)
        sys.exit(2)
    from nmt_cli.system import signals

    with signals.handle_signals(signal.SIG_DFL):
        from nmt_cli.cli import main as run
    run()


if __name__ == "__main__":
    main()
