"""Recurrent neural machine translation with attention, for the command line; five calls are for programs."""

from nmt_cli.library import align, load, score, train, translate
from nmt_cli.system.errors import NmtError
from nmt_cli.version import __version__

__all__ = ["NmtError", "__version__", "align", "load", "score", "train", "translate"]
