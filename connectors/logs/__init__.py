"""LogFiles and Syslog: the lines of log files, and messages that senders bring."""
