"""The command `nmt`, and `python -m nmt_cli`."""

import signal


def main() -> None:
    """Read the program, which an interruption ends without a traceback, and run it."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # not where the caller has it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from nmt_cli.cli import main as run

    signal.signal(signal.SIGINT, handler)
    run()


if __name__ == "__main__":
    main()
