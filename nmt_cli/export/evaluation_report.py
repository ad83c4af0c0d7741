"""The report of `nmt evaluate`, a JSON file: the scores of each test set, and the models that were evaluated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nmt_cli.system.errors import InputError

REPORT = "report.json"
"""Name of the report in the output directory of `nmt evaluate`."""


def read_report(path: Path) -> dict[str, dict[str, Any]]:
    """Return the scores and settings of each test set, by its name, from a report; empty if there is no file.

    Raises:
        InputError: the file is no such report, is damaged or cannot be read.
    """
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        sets = report.pop("sets")
        # Older reports say only once, for all sets, by which models they were made.
        return {name: {**report, **entry} for name, entry in sets.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path}: is not a report of `nmt evaluate`, or is damaged. Move it away or choose another -o"
        ) from error
