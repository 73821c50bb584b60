"""Syslog: messages over UDP, TCP and TLS."""
