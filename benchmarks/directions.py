"""What one model for several directions gains over one model for each, on Tatoeba (docs/studies/directions.md).

English with French, Vietnamese and Chinese, split as `benchmarks.defaults` splits them. The models of one direction
are those that `nmt init` writes, and those of several what `nmt init --direction` writes; then fine-tuned models of one
direction each, and `nmt improve` on top, with the English side of the French text. A training text of several
directions has no sentence of any test or dev set on either side. Each model is scored on its test sets after the
processor minutes of `MINUTES`, one of several directions after the sum of theirs, a fine-tuned one after as many more
as a model of its direction has, an improved one whenever it ends; and then, when all have come so far, at its end. A
run that is stopped goes on when the same command is started again; what has been scored is in the results and is not
made again.

    python -m benchmarks.directions                            all systems, two lanes, one thread each
    python -m benchmarks.directions --systems many-en-5 vi-en  some of them
    python -m benchmarks.directions --phases equal             only the scores at equal minutes
    python -m benchmarks.directions --quick                    everything once with little text, in a few minutes
    python -m benchmarks.directions --show                     the tables of what has been scored
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import yaml

from benchmarks.defaults import MAX_HELD_OUT, TATOEBA, split
from benchmarks.runs import metrics, nmt

RESULTS = Path("docs/studies/directions.jsonl")
MINUTES = {"vi": 8, "zh": 16, "fr": 32}
"""Processor minutes of a model for a language with English, one way; several directions have their sum."""
QUICK_PAIRS, QUICK_MINUTES = 1_500, 0.2
QUICK = (
    *("training.max_steps=40", "training.max_epochs=null", "training.validation_freq=20", "training.warmup_steps=5"),
    *("training.batch_size=500", "training.checkpoint_freq=20", "training.num_samples=0"),
)
EVERY = 5.0
"""Seconds between two looks at how much processor time a training has used."""
TEXTS = {language: name for name, language in TATOEBA.items()}
TO_ENGLISH = tuple((language, "en") for language in TEXTS)
FROM_ENGLISH = tuple(("en", language) for language in TEXTS)
PHASES = ("equal", "end")
Way = tuple[str, str]
_writing = Lock()


@dataclass(frozen=True, slots=True)
class System:
    """A model of the study."""

    name: str
    ways: tuple[Way, ...]
    overrides: tuple[str, ...] = ()
    origin: str | None = None
    """The system that it is fine-tuned from, as that is at the end of the same phase."""
    is_improved: bool = False
    """It learns from the English side of the French text too, by `nmt improve`."""
    reverse: str | None = None
    """The system that translates this text back, as that is at the end of the same phase; None: one is trained."""

    @property
    def minutes(self) -> float:
        """Its processor minutes for the comparison at equal minutes."""
        return float(sum(MINUTES[language] for way in self.ways for language in way if language != "en"))

    @property
    def prerequisites(self) -> tuple[str, ...]:
        """The systems that it uses."""
        return tuple(name for name in (self.origin, self.reverse) if name is not None)


def _systems() -> list[System]:
    """Return all systems; those that others go out from come before them."""
    singles = [System("-".join(way), (way,)) for way in (*TO_ENGLISH, *FROM_ENGLISH)]
    both = TO_ENGLISH + FROM_ENGLISH
    several = [
        System("many-en-5", TO_ENGLISH),
        System("en-many-5", FROM_ENGLISH),
        System("all-5", both),
        System("many-en-1", TO_ENGLISH, ("data.corpus_temperature=1",)),
        System("all-1", both, ("data.corpus_temperature=1",)),
        System("many-en-5-tagged", TO_ENGLISH, ("data.source_tags=true",)),
    ]
    tuned = [
        System(f"{'-'.join(way)} from {origin}", (way,), origin=origin)
        for origin, ways in (
            *(("many-en-5", TO_ENGLISH), ("many-en-1", TO_ENGLISH)),
            *(("en-many-5", FROM_ENGLISH), ("all-5", both)),
        )
        for way in ways
    ]
    vi = (("vi", "en"),)
    improved = [
        System("vi-en improved from all-5", vi, origin="all-5", is_improved=True, reverse="all-5"),
        System("vi-en improved from many-en-1", vi, origin="many-en-1", is_improved=True, reverse="en-many-5"),
    ]
    return [*singles, *several, *tuned, *improved]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="directory with tatoeba/")
    parser.add_argument("--directory", type=Path, default=Path("runs/directions"), help="where everything is made")
    parser.add_argument("--lanes", type=int, default=2, help="trainings side by side, each with one thread")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument(
        "--origin-seed", type=int, metavar="SEED", help="take what a system uses from this seed, not from its own"
    )
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="only these and what they go out from")
    parser.add_argument("--phases", nargs="+", choices=PHASES, default=PHASES, help="at equal minutes, and at the end")
    parser.add_argument("--quick", action="store_true", help="little text and few updates, to see that all works")
    parser.add_argument("--show", action="store_true", help="only print the tables of what has been scored")
    asked = parser.parse_args()
    directory = asked.directory / "quick" if asked.quick else asked.directory
    results = directory / "results.jsonl" if asked.quick else RESULTS
    study = _Study(directory, asked.data, results, is_quick=asked.quick, origin_seed=asked.origin_seed)
    if not asked.show:
        systems = _wanted(_systems(), asked.systems)
        runs = dict.fromkeys(
            (one, study.origin_seed(seed) if any(one.name in other.prerequisites for other in systems) else seed)
            for seed in asked.seeds
            for one in systems
        )
        study.prepare()
        for phase in asked.phases:
            _in_lanes(study, phase, list(runs), asked.lanes)
    study.show()


def _wanted(systems: Sequence[System], names: Sequence[str] | None) -> list[System]:
    """Return the systems of these names in their order, those that they go out from before them."""
    if names is None:
        return list(systems)
    known = {system.name: system for system in systems}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"no system {', '.join(unknown)}; there are: {', '.join(known)}")
    needed = dict.fromkeys(one for name in names for one in (*known[name].prerequisites, name))
    return [known[name] for name in needed]


def _in_lanes(study: _Study, phase: str, runs: Sequence[tuple[System, int]], lanes: int) -> None:
    """Bring all runs through a phase, some at a time; a run waits for those that it uses, and holds no lane then."""
    free: queue.Queue[int] = queue.Queue()
    for lane in range(lanes):
        free.put(lane)
    made: dict[tuple[str, int], Any] = {}

    def make(system: System, seed: int) -> None:
        for name in system.prerequisites:
            made[name, study.origin_seed(seed)].result()
        lane = free.get()
        try:
            study.make(system, seed, phase)
        finally:
            free.put(lane)

    with ThreadPoolExecutor(len(runs)) as pool:
        for system, seed in runs:
            made[system.name, seed] = pool.submit(make, system, seed)
        for waiting in made.values():
            waiting.result()


class _Study:
    """The texts, configurations and runs below one directory."""

    def __init__(
        self, directory: Path, data: Path, results: Path, *, is_quick: bool, origin_seed: int | None = None
    ) -> None:
        self._directory, self._data, self._results, self._is_quick = directory, data, results, is_quick
        self._origin_seed = origin_seed

    def origin_seed(self, seed: int) -> int:
        """Return the seed of the systems that one of this seed uses."""
        return seed if self._origin_seed is None else self._origin_seed

    # The texts ------------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Split the corpora, and take the sentences of all dev and test sets out of the text for several directions."""
        self._texts.mkdir(parents=True, exist_ok=True)
        parts = {language: self._split(language) for language in TEXTS}
        held_out: dict[str, set[str]] = {}
        for language, of_language in parts.items():
            for name in ("dev", "test"):
                for english, other in of_language[name]:
                    held_out.setdefault("en", set()).add(_bare(english))
                    held_out.setdefault(language, set()).add(_bare(other))
        for language, of_language in parts.items():
            kept = [
                pair
                for pair in of_language["train"]
                if _bare(pair[0]) not in held_out["en"] and _bare(pair[1]) not in held_out[language]
            ]
            of_language["shared"] = kept
            for name, pairs in of_language.items():
                for side, own in enumerate(("en", language)):
                    self._text(name, language, own).write_text("".join(f"{pair[side]}\n" for pair in pairs))
            counts = ", ".join(f"{name} {len(pairs):,}" for name, pairs in of_language.items())
            print(f"en-{language}: {counts}", file=sys.stderr, flush=True)

    @property
    def _texts(self) -> Path:
        return self._directory / "texts"

    def _text(self, name: str, language: str, side: str) -> Path:
        """Return the file of one side of a part of the text of a language with English."""
        return (self._texts / f"{language}.{name}.{side}").absolute()

    def _split(self, language: str) -> dict[str, list[tuple[str, str]]]:
        prefix = self._texts / f"{language}.all"
        ends = ("en", language)
        if not prefix.with_name(f"{prefix.name}.report.json").exists():
            options = ["--source-lang", "en", "--target-lang", language]
            nmt("import", str(self._data / "tatoeba" / f"{TEXTS[language]}-eng.zip"), "-o", str(prefix), *options)
        sides = (Path(f"{prefix}.{end}").read_text(encoding="utf-8").split("\n")[:-1] for end in ends)
        pairs = list(zip(*sides, strict=True))
        if self._is_quick:
            pairs = pairs[-QUICK_PAIRS:]
        return split(pairs, min(MAX_HELD_OUT, len(pairs) // 20))

    # The configurations ---------------------------------------------------------------------------------------------

    def _config(self, system: System) -> Path:
        """Return the configuration of a system, which is written first if it is not there."""
        path = self._directory / "configs" / f"{_file_name(system.name)}.yaml"
        if path.exists():
            return path
        path.parent.mkdir(exist_ok=True)
        if system.origin is not None:
            values = self._fine_tuning(system)
        else:
            written = path.with_suffix(".init.yaml")
            name = "train" if len(system.ways) == 1 else "shared"
            if not written.exists():
                nmt("init", *self._init_options(system, name), "-o", str(written))
            values = yaml.safe_load(written.read_text(encoding="utf-8"))
            # All text is for training: the sets of the study are held out already.
            values["data"] |= self._data_of(system.ways, name)
        values["name"] = _file_name(system.name)
        path.write_text(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), encoding="utf-8")
        return path

    def _init_options(self, system: System, name: str) -> list[str]:
        if len(system.ways) > 1:
            languages = dict.fromkeys(language for way in system.ways for language in way if language != "en")
            is_to_english = system.ways[0][1] == "en"
            ways = [(language, "en") if is_to_english else ("en", language) for language in languages]
            options = []
            for way, language in zip(ways, languages, strict=True):
                files = ",".join(str(self._text(name, language, side)) for side in way)
                options += ["--direction", f"{'-'.join(way)}={files}"]
            return [*options, *(["--both"] if len(system.ways) > len(ways) else [])]
        (way,) = system.ways
        language = _other(way)
        words = ["--source-lang", way[0], "--target-lang", way[1]]
        for option, part, side in (
            *(("--source", "train", way[0]), ("--target", "train", way[1])),
            *(("--dev-source", "dev", way[0]), ("--dev-target", "dev", way[1])),
        ):
            words += [option, str(self._text(part, language, side))]
        return words

    def _data_of(self, ways: Sequence[Way], name: str) -> dict[str, Any]:
        """Return the texts of some ways, as a configuration names them."""

        def text(part: str, way: Way, **more: str) -> dict[str, str]:
            source, target = (str(self._text(part, _other(way), side)) for side in way)
            return {**more, "source": source, "target": target, "source_lang": way[0], "target_lang": way[1]}

        return {
            "train": [text(name, way) for way in ways],
            "dev": [text("dev", way) for way in ways],
            "test": [text("test", way, name="-".join(way)) for way in ways],
        }

    def _fine_tuning(self, system: System) -> dict[str, Any]:
        """Return the configuration that goes on from a system of several directions, with a tenth of its rate."""
        assert system.origin is not None
        origin = next(other for other in _systems() if other.name == system.origin)
        values = yaml.safe_load(self._config(origin).read_text(encoding="utf-8"))
        (way,) = system.ways
        values["data"] |= self._data_of([way], "shared")
        values["data"] |= {"corpus_temperature": 1.0, "source_lang": way[0], "target_lang": way[1]}
        own = yaml.safe_load(self._config(System("-".join(way), (way,))).read_text(encoding="utf-8"))
        # The sizes are those of the origin; what goes against learning by heart is that of so little text.
        values["model"]["dropout"] = own["model"]["dropout"]
        training = values["training"]
        training["learning_rate"] = training["learning_rate"] / 10
        training |= {key: own["training"][key] for key in ("max_epochs", "validation_freq", "checkpoint_freq")}
        if "scoring" in own:
            values["scoring"] = own["scoring"]
        if system.is_improved:
            values["data"]["monolingual"] = {"target": [str(self._text("shared", "fr", "en"))]}
        return dict(values)

    # The runs -------------------------------------------------------------------------------------------------------

    def make(self, system: System, seed: int, phase: str) -> None:
        """Train a system to its minutes or to its end, and score it there."""
        run = self._run(system, seed, phase)
        if phase in self._phases_done(system.name, seed) and run.exists():
            return
        used = [(name, self.origin_seed(seed)) for name in system.prerequisites]
        for name, its_seed in ((system.name, seed), *used):
            if phase == "equal" and "end" in self._phases_done(name, its_seed):
                raise SystemExit(f"{name} {its_seed} has come to its end, so it has no state at equal minutes any more")
        run.parent.mkdir(parents=True, exist_ok=True)
        overrides = [f"seed={seed}", "training.threads=1", *system.overrides, *(QUICK if self._is_quick else ())]
        if system.origin is not None:
            overrides.append(
                f"training.init_from={self._models / f'{_file_name(system.origin)}-{self.origin_seed(seed)}'}"
            )
        words = ["--config", str(self._config(system)), *(word for one in overrides for word in ("--set", one))]
        log = run.with_name(f"{run.name}.log")
        if system.is_improved:
            if system.reverse is not None:
                words += ["--reverse", str(self._models / f"{_file_name(system.reverse)}-{self.origin_seed(seed)}")]
            _run_for("improve", run, [*words, "--workers", "1", "-o", str(run)], log, None)
        else:
            words += ["--set", f"model_dir={run}"]
            minutes = QUICK_MINUTES if self._is_quick else system.minutes
            _run_for("train", run, words, log, 60 * minutes if phase == "equal" else None)
        self._score(system, seed, run, phase, log)

    def _run(self, system: System, seed: int, phase: str) -> Path:
        """Return the directory of a run; a fine-tuned model has one for each phase of its origin."""
        of_phase = f"-{phase}" if system.origin is not None else ""
        return self._models / f"{_file_name(system.name)}-{seed}{of_phase}"

    @property
    def _models(self) -> Path:
        return self._directory / "models"

    def _score(self, system: System, seed: int, run: Path, phase: str, log: Path) -> None:
        nmt("evaluate", "--model", str(run), "--threads", "1", log=log)
        report = json.loads((run / "reports" / "report.json").read_text(encoding="utf-8"))["sets"]
        scores = {
            "-".join(way): {metric: report["-".join(way)][metric]["score"] for metric in ("bleu", "chrf")}
            for way in system.ways
        }
        validations = metrics(run, "validation")
        row = {
            "system": system.name,
            "seed": seed,
            **({"origin_seed": self.origin_seed(seed)} if system.prerequisites else {}),
            "phase": phase,
            "minutes": round(_used(run) / 60, 1),
            "updates": int(validations[-1]["step"]) if validations else 0,
            "scores": scores,
        }
        with _writing, self._results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        told = ", ".join(f"{way} {found['bleu']:.2f}" for way, found in scores.items())
        print(f"{system.name} {seed}, {phase}: {told} ({row['minutes']} minutes)", file=sys.stderr, flush=True)

    # The tables -----------------------------------------------------------------------------------------------------

    def _phases_done(self, name: str | None, seed: int) -> set[str]:
        return {row["phase"] for row in self._rows() if (row["system"], row["seed"]) == (name, seed)}

    def _rows(self) -> list[dict[str, Any]]:
        if not self._results.exists():
            return []
        return [json.loads(line) for line in self._results.read_text(encoding="utf-8").splitlines()]

    def show(self) -> None:
        """Print the mean BLEU of the seeds, for each system and way, at equal minutes and at the end."""
        ways = ["-".join(way) for way in (*TO_ENGLISH, *FROM_ENGLISH)]
        for phase in PHASES:
            print(f"\n{phase}\n\n| system | {' | '.join(ways)} | minutes | seeds |")
            print("|---" * (len(ways) + 3) + "|")
            rows = [row for row in self._rows() if row["phase"] == phase]
            for name in dict.fromkeys(row["system"] for row in rows):
                own = [row for row in rows if row["system"] == name]
                cells = [_mean([row["scores"][way]["bleu"] for row in own if way in row["scores"]]) for way in ways]
                minutes = _mean([row["minutes"] for row in own])
                print(f"| {name} | {' | '.join(cells)} | {minutes} | {len(own)} |")


def _run_for(command: str, run: Path, words: Sequence[str], log: Path, seconds: float | None) -> None:
    """Run a command that makes the directory `run`, until it has used these processor seconds or has ended."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    before = _used(run)
    if seconds is not None and before >= seconds:
        return
    with log.open("ab") as errors:
        program = [sys.executable, "-m", "nmt_cli", command, *words]
        process = subprocess.Popen(program, stdout=errors, stderr=errors, env=environment)
        is_stopped = False
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            used = before + (usage.ru_utime + usage.ru_stime if ended else _seconds_of(process.pid))
            if run.exists():
                _clock(run).write_text(json.dumps(used), encoding="utf-8")
            if ended:
                break
            if seconds is not None and used >= seconds and not is_stopped:
                process.send_signal(signal.SIGTERM)
                is_stopped = True
            time.sleep(2.0 if seconds is not None and seconds < 60 else EVERY)
    code = process.returncode = os.waitstatus_to_exitcode(status)
    # A command that somebody else stopped has not come to its end, though it exits like one stopped here.
    if code != 0 and not (is_stopped and code == 143):
        raise SystemExit(f"ended ({code}): nmt {command} {' '.join(words)}\nits messages are in {log}")


def _clock(run: Path) -> Path:
    return run.with_name(f"{run.name}.seconds.json")


def _used(run: Path) -> float:
    """Return the processor seconds of a run so far."""
    return float(json.loads(_clock(run).read_text(encoding="utf-8"))) if _clock(run).exists() else 0.0


def _seconds_of(process: int) -> float:
    """Return the processor seconds of a process and of all that it has started; 0 where it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="utf-8").split()
    except OSError:
        children = []
    return own + sum(_seconds_of(int(child)) for child in children)


def _bare(sentence: str) -> str:
    """Return a sentence as the split compares it."""
    return sentence.casefold().strip()


def _other(way: Way) -> str:
    """Return the language of a way that is not English."""
    return next(language for language in way if language != "en")


def _file_name(name: str) -> str:
    return name.replace(" ", "_")


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.2f}" if values else ""


if __name__ == "__main__":
    main()
