"""The errors a user meets: each message has place, fault and remedy; the exit code shows whose fault it is."""

import traceback

from nmt_cli.system.signals import exit_code


class NmtError(Exception):
    """Something failed while running (no space, divergence). The command line prints the message alone and exits."""

    exit_code = 1


class InputError(NmtError):
    """The user's input is wrong: an option, a file, a line count, a device, a directory in use."""

    exit_code = 2


class UnequalLinesError(InputError):
    """Files whose lines should belong together have unequal numbers of lines."""

    def __init__(self, message: str, paths: list[str], counts: list[int]) -> None:
        super().__init__(message)
        self.paths, self.counts = paths, counts


class ConfigError(InputError):
    """The configuration is wrong; the message lists every problem with its key."""


class ModelError(InputError):
    """A model directory cannot be used: foreign, damaged, incomplete, of another format version."""


class UnreadableError(ModelError):
    """A file of a model cannot be read now, for example because of its permissions, though it may be undamaged."""


class PredictionError(ModelError):
    """A model predicts numbers that are not probabilities, though its parameters are finite."""


class DivergenceError(NmtError):
    """Training met too many non-finite losses or gradients in a row, or ended with weights whose loss is not finite."""


class AlreadyReported(NmtError):  # noqa: N818 (not an error of this process)
    """Another process of the same training has failed; the message is empty if another process prints it."""

    def __init__(self, exit_code: int, message: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Interrupted(NmtError):  # noqa: N818 (not an error of anybody)
    """A signal asked the command to stop, and the command has saved its work."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code(signal_number)


def is_refusal(error: NmtError) -> bool:
    """Return True if an error means that the user's input is wrong; also for an error reported by another process."""
    return error.exit_code == InputError.exit_code


def place_of(error: BaseException) -> str:
    """Return the type of an error, or the message of a `ModelError`, and the place where it was raised.

    The messages of other errors are left out, because they may hold text of a user.
    """
    frames = traceback.extract_tb(error.__traceback__)
    shown = str(error) if isinstance(error, ModelError) else type(error).__name__
    return f"{shown} at {frames[-1].filename}:{frames[-1].lineno}" if frames else shown
