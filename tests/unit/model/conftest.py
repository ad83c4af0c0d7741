"""Fixtures that the tests of models share."""

import pytest

from nmt_cli.ops import native


@pytest.fixture(params=[native.NATIVE, native.PLAIN])
def both_paths(request):
    """Everything by the kernels, and by the formulas that are there without a compiler."""
    if request.param == native.NATIVE and not native.is_built():
        pytest.skip("installed without a compiler")
    with native.path(request.param):
        yield
