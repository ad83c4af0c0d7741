"""`python -m benchmarks`. The work stands beside it: processes that are spawned cannot import a `__main__`."""

from benchmarks.speed import main

if __name__ == "__main__":
    main()
