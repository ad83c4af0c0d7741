"""Access to the machine: files, signals, console, errors, memory, processors, worker processes, clusters."""
