"""The machine: files, signals, console, errors, memory, processors, processes, clusters."""
