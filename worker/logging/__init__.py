"""The worker's log: its set-up, no secrets in it, lines that repeat, Java's names of loggers."""
