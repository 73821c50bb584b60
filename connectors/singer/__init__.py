"""Singer's taps as sources and its targets as sinks, each a process with a virtual environment of its own."""
