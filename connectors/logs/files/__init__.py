"""LogFiles: the lines of log files over their rotation."""
