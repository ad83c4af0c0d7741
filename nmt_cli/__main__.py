"""The command `nmt`, and `python -m nmt_cli`."""

import signal

from nmt_cli import signals


def main() -> None:
    """Read the program, which a signal ends without a traceback, and run it."""
    with signals.answered_by(signal.SIG_DFL):
        from nmt_cli.cli import main as run
    run()


if __name__ == "__main__":
    main()
