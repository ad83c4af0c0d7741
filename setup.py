"""Compiles the kernels under a name that every Python loads, and names the wheel accordingly; the rest is in
pyproject.toml.

The kernels know nothing of Python: they are loaded through ctypes. So one wheel serves all versions of it. The variable
NMT_KERNELS decides what happens where they cannot be compiled: `optional` (the default) installs without them,
`required` fails, and `none` does not try, which gives a wheel for every system.
"""

import os

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

KERNELS = os.environ.get("NMT_KERNELS") or "optional"
if KERNELS not in ("optional", "required", "none"):
    raise SystemExit(f"NMT_KERNELS={KERNELS}: must be optional, required or none")


class Package(Distribution):
    """The package with the kernels, or without."""

    def parse_config_files(self, *arguments, **named):
        """Read pyproject.toml, and change of the kernels what NMT_KERNELS says."""
        super().parse_config_files(*arguments, **named)
        for extension in self.ext_modules or []:
            extension.optional = KERNELS == "optional"
        if KERNELS == "none":
            self.ext_modules = []


class BuildKernels(build_ext):
    """Compiles a library whose name does not depend on the version of Python."""

    def get_ext_filename(self, fullname):
        """Return a path such as nmt_cli/ops/kernels.so."""
        return os.path.join(*fullname.split(".")) + ".so"


class Wheel(bdist_wheel):
    """A wheel for any Python 3, and for the platform of the kernels if there are any."""

    def get_tag(self):
        """Return the tags of Python, of its binary interface and of the platform."""
        return ("py3", "none", super().get_tag()[2])


def shared():
    """Return manual pages and completion scripts by the directories of an installation; none in a clone."""
    found = {}
    for directory, _, names in sorted(os.walk("share")):
        found[directory] = [f"{directory}/{name}" for name in sorted(names)]
    return [*found.items()]


setup(distclass=Package, cmdclass={"build_ext": BuildKernels, "bdist_wheel": Wheel}, data_files=shared())
