"""The architecture as a test: who imports whom, read from the syntax of every module, functions included."""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "nmt_cli"
FILES = sorted(PACKAGE.rglob("*.py"))
ANYWHERE = {"version", "system", "text"}
"""The version, and the rooms that anyone may import, but for the pure ones."""
PURE = ("model", "normalization", "ops", "search", "text")
"""Rooms that know no files, clocks, environment or global random state."""

MAY_IMPORT = {
    "version": set(),
    "system": set(),
    "text": set(),
    "config": set(),
    "ops": set(),
    "model": {"ops"},
    "search": {"ops", "config.decoding"},
    "confidence": set(),
    "normalization": {"system.errors", "text"},
    "formats": set(),
    "data": {"formats.recognise"},
    "scoring": set(),
    "translation": {"normalization", "confidence", "search", "data", "model", "ops", "config.decoding"},
    "training": {"translation", "normalization", "data", "model", "ops", "scoring", "config.decoding"},
    "experiment": {"config", "data.tokenizer", "training.checkpoints"},
    "documents": {"formats", "normalization", "translation"},
    "plots": {"data.output"},
    "corpora": {"config", "data", "formats"},
    "improve": {"config", "corpora.filter_pairs", "data", "experiment", "training.checkpoints"},
    "export": {
        "config.architecture",
        "config.schema",
        "config.yaml_text",
        "data",
        "experiment",
        "improve.record",
        "model",
        "normalization.profile",
        "ops.loop_product",
        "training.checkpoints",
        "translation.precision",
    },
    "serve": {"data.language_profile", "documents", "formats", "normalization", "translation"},
    "demo": {"config", "plots", "scoring", "translation"},
}
"""What each room may import beside itself and `ANYWHERE`. `model.build` alone knows `config.model` too. `assembly` may
import all of these, and the commands all and `assembly`."""
ABOVE = {"cli", "__main__", "library", "commands", "assembly"}

DOORS = {
    "typer": {"cli", "commands"},
    "click": set(),
    "yaml": {"config.yaml_text"},
    "sentencepiece": {"data.tokenizer", "export.onnx.translate"},
    "sacrebleu": {"scoring", "confidence.labels"},
    "tqdm": {"system.console"},
    "safetensors": {"system.storage"},
    "matplotlib": {"plots"},
    "pydantic": {"config"},
    "ray": {"system.cluster"},
    "charset_normalizer": {"formats.legacy_encodings"},
    "openpyxl": {"formats.xlsx"},
    "zstandard": {"formats.opening"},
    "sentencex": {"documents.sentences"},
    "onnx": {"export.onnx.graph"},
    "onnxruntime": {"export.onnx.translate"},
    "starlette": {"serve"},
    "h11": {"serve.exchange"},
}
"""Each outside library and who may import it."""

TOUCHES_THE_WORLD = {"os", "sys", "io", "pathlib", "time", "datetime", "logging", "random", "tempfile", "subprocess"}
"""Files, clocks, loggers, the environment, global random state."""


def name_of(path):
    """`model.build` for nmt_cli/model/build.py, `model` for its __init__."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@functools.cache
def imports_of(path):
    """Dotted names that a module imports, wherever in it: `torch.nn`, `nmt_cli.data.batch`."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            # `from nmt_cli import scoring` and `from torch import distributed` import modules too.
            found.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
    return found


def own_imports(path):
    """Modules of the package that a module imports, without the package's name."""
    known = {name_of(file) for file in FILES}
    inside = {name.removeprefix("nmt_cli").removeprefix(".") for name in imports_of(path) if is_within(name, "nmt_cli")}
    return inside & known


def is_within(name, package):
    return name == package or name.startswith(f"{package}.")


def in_any(name, packages):
    return any(is_within(name, package) for package in packages if package) or (name == "" and "" in packages)


def roots_of(path):
    return {name.partition(".")[0] for name in imports_of(path)}


def files_of(room):
    return [path for path in FILES if is_within(name_of(path), room)]


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_is_below_it(room):
    allowed = MAY_IMPORT[room] | {room} | (set() if room in PURE else ANYWHERE)
    files = files_of(room)
    assert files
    for path in files:
        also = {"config.model"} if name_of(path) == "model.build" else set()
        assert {name for name in own_imports(path) if not in_any(name, allowed | also)} == set(), name_of(path)


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_know_nothing_of_the_world(room):
    touching = TOUCHES_THE_WORLD - ({"os", "pathlib"} if room == "ops" else set())  # where the kernels lie
    for path in files_of(room):
        outside = roots_of(path) - {"nmt_cli", "torch", "numpy"}
        assert outside <= set(sys.stdlib_module_names), name_of(path)
        assert outside.isdisjoint(touching), name_of(path)


def test_every_module_has_a_place_in_this_plan():
    at_root = {name_of(path).partition(".")[0] for path in FILES} - {""}
    assert at_root == set(MAY_IMPORT) | ABOVE


def test_commands_are_imported_by_the_command_line_alone_and_assembly_by_commands():
    for path in FILES:
        name, imported = name_of(path), own_imports(path)
        if not in_any(name, {"cli", "commands"}):
            assert not any(is_within(other, "commands") for other in imported), name
        if not in_any(name, ABOVE):
            assert not any(is_within(other, "assembly") for other in imported), name
        if name != "__main__":
            assert "cli" not in imported, name


KNOWN_TO_COMMANDS = {
    *("commands", "assembly", "system.errors", "system.console", "config.loader"),
    *("formats.languages", "formats.members", "improve.plan", "serve.limits"),
}
"""Rooms and files that commands may import: `assembly`, and the values into which they put their options."""


def test_commands_leave_the_work_to_assembly():
    for path in files_of("commands"):
        assert {name for name in own_imports(path) if not in_any(name, KNOWN_TO_COMMANDS)} == set(), name_of(path)


def imports_when_loaded(path):
    """Modules of the package, and other libraries, that a file imports when it is loaded: not for type checking, and
    not within functions."""
    own, others = set(), set()
    known = {name_of(file) for file in FILES}

    def look(body):
        for node in body:
            match node:
                case ast.Import():
                    others.update(alias.name.partition(".")[0] for alias in node.names)
                case ast.ImportFrom() if is_within(node.module, "nmt_cli"):
                    names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
                    own.update({name.removeprefix("nmt_cli").removeprefix(".") for name in names} & known)
                case ast.ImportFrom():
                    others.add(node.module.partition(".")[0])
                case ast.If() if ast.unparse(node.test) != "TYPE_CHECKING":
                    look(node.body)
                    look(node.orelse)
                case ast.Try():
                    look(node.body)

    look(tree_of(path).body)
    return own - {name_of(path), ""}, others


LOADED = {name_of(path): imports_when_loaded(path) for path in FILES}


def closure(name):
    """All modules of the package that are loaded with one."""
    found, waiting = set(), [name]
    while waiting:
        if (one := waiting.pop()) not in found:
            found.add(one)
            waiting += LOADED[one][0]
    return found


def test_no_module_takes_what_the_package_itself_exports():
    """It would be a circle: the package takes its calls from `library`, which takes from everywhere."""
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and node.module == "nmt_cli":
                assert {alias.name for alias in node.names} <= set(LOADED), name_of(path)


def test_no_files_import_one_another_in_a_circle():
    """Imports for type checking aside."""
    for name in LOADED:
        assert not any(name in closure(other) for other in LOADED[name][0]), name


def test_imports_stand_at_the_top_unless_they_load_other_libraries():
    """A command loads what it needs when it is called, so that `nmt --help` answers at once: all of the assembly takes
    twice as long as the help may."""
    for path in FILES:
        # Those load what they need when they are called; the first looks before whether the system has signals.
        if name_of(path) in ("__main__", "library") or is_within(name_of(path), "commands"):
            continue
        for function in ast.walk(tree_of(path)):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom) and is_within(node.module, "nmt_cli"):
                    name = node.module.removeprefix("nmt_cli").removeprefix(".")
                    names = {f"{name}.{alias.name}".removeprefix(".") for alias in node.names} & set(LOADED) or {name}
                    loaded = {library for one in names for other in closure(one) for library in LOADED[other][1]}
                    assert loaded - set(sys.stdlib_module_names), f"{name_of(path)}: {ast.unparse(node)}"


@pytest.mark.parametrize("library", DOORS)
def test_each_outside_library_has_one_door(library):
    guests = {name_of(path) for path in FILES if library in roots_of(path)}
    assert {name for name in guests if not in_any(name, DOORS[library])} == set()


def test_every_outside_library_is_declared():
    """A library that only another one brings can go with that one's next version."""
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = ("plots", "logs", "ray", "formats", "documents", "onnx", "serve")
    extras = (project["optional-dependencies"][name] for name in names)
    declared = {re.match(r"[\w-]+", requirement)[0].lower() for requirement in chain(project["dependencies"], *extras)}
    imported = {name for path in FILES for name in roots_of(path)} - {"nmt_cli", *sys.stdlib_module_names}
    assert {
        {"yaml": "pyyaml", "charset_normalizer": "charset-normalizer"}.get(name, name) for name in imported
    } <= declared


def test_torch_distributed_is_known_in_one_place():
    """As an import, and as an attribute of torch."""
    for path in FILES:
        if name_of(path) == "system.distributed":
            continue
        assert not any(is_within(name, "torch.distributed") for name in imports_of(path)), name_of(path)
        assert "torch.distributed" not in {
            ast.unparse(node) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute)
        }, name_of(path)


def test_no_module_is_a_drawer():
    for path in FILES:
        assert not {"utils", "util", "helpers", "helper", "common", "constants", "misc"} & set(name_of(path).split("."))


def called_names(path):
    """`torch.load` for torch.load(...), `eval` for eval(...)."""
    return {ast.unparse(node.func) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)}


def test_no_pickle_is_read_or_written_and_no_text_is_executed():
    """Model files come from strangers. The names are looked at however torch was imported."""
    forbidden = {"eval", "exec", "compile", "__import__", "torch.load", "torch.save", "np.load", "numpy.load"}
    for path in FILES:
        assert called_names(path).isdisjoint(forbidden), name_of(path)
        picklers = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}
        assert roots_of(path).isdisjoint(picklers), name_of(path)
        assert imports_of(path).isdisjoint({"torch.load", "torch.save", "torch.serialization"}), name_of(path)


def test_modules_with_random_state_of_their_own_own_it():
    """Below the trainer nobody seeds or asks the global generators."""
    forbidden = {"torch.manual_seed", "np.random.seed", "random.seed", "torch.seed"}
    for path in (*files_of("model"), *files_of("search"), *files_of("data")):
        assert called_names(path).isdisjoint(forbidden), name_of(path)


@pytest.mark.parametrize("module", ["nmt_cli", "nmt_cli.cli"])
def test_the_command_line_is_there_without_torch(module):
    """`nmt --help` answers at once. Breaks with one `import torch` at the top of a command's file."""
    heavy = ("torch", "numpy", "sentencepiece", "sacrebleu", "matplotlib", "safetensors", "pydantic", "yaml", "ray",
             "charset_normalizer", "openpyxl", "polib", "zstandard", "sentencex", "onnx", "onnxruntime")  # fmt: skip
    code = f"import {module}, sys; print(*sorted(set(sys.modules) & {set(heavy)!r}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []


def test_the_process_that_speaks_http_does_without_torch():
    """So it needs 67 MB. Breaks with one `import torch` at the top of what the server uses beside the search."""
    modules = ["commands.serve", "assembly.server", "experiment"]
    modules += [f"serve.{name}" for name in ("app", "server", "backend", "service", "model_reload")]
    code = f"import sys, {', '.join(f'nmt_cli.{name}' for name in modules)}; print('torch' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == ["False"]


WITHOUT_EXTRAS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {extras!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
"""
EXTRAS = ("starlette", "h11", "python_multipart", "sentencex", "onnx", "onnxruntime", "ray", "matplotlib",
          "charset_normalizer", "openpyxl", "polib", "zstandard", "tensorboard")  # fmt: skip


def test_what_a_command_loads_needs_no_extra_but_for_the_server():
    """So a command says which extra is missing."""
    loaded = [name for name in LOADED if is_within(name, "assembly") or is_within(name, "commands")]
    modules = ", ".join(f"nmt_cli.{name}" for name in loaded if name != "assembly.server")
    code = WITHOUT_EXTRAS.format(extras=EXTRAS) + f"import {modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_server_names_its_extra_where_that_is_missing():
    """Breaks where `nmt serve` loads the server before it looks for the libraries."""
    code = WITHOUT_EXTRAS.format(extras=EXTRAS) + (
        "import importlib.util\n"
        "importlib.util.find_spec = lambda name: None\n"
        "sys.argv = ['nmt', 'serve', '--model', 'none']\n"
        "from nmt_cli.cli import main\n"
        "main()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (
        2,
        "nmt: nmt serve needs Starlette, h11 and sentencex: pip install 'nmt-cli[serve]'",
    )


def test_no_two_files_of_tests_have_one_name():
    """pytest imports them by their names alone, and collects only the first."""
    names = [path.name for path in (PACKAGE.parent / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
