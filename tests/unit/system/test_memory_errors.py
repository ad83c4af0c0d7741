"""The message when memory runs out, and when another error only speaks of memory."""

import pytest

from nmt_cli import cli


def raises(error):
    def run():
        raise error

    return run


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory")],
)
def test_memory_that_runs_out_is_told_in_one_line(error, monkeypatch, capsys):
    monkeypatch.setattr(cli, "_run_command", raises(error))
    assert cli._run() == 1
    assert capsys.readouterr().err == (
        "nmt: out of memory. Take a smaller model or batch, or shorten the longest lines "
        "(data.max_length, decoding.max_source_pieces)\n"
    )


def test_another_error_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(
        cli, "_run_command", raises(RuntimeError("CUDA error: an illegal memory access was encountered"))
    )
    with pytest.raises(RuntimeError, match="illegal memory access"):
        cli._run()
