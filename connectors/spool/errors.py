"""The errors of spool folders."""


class SpoolError(Exception):
    """A failure that ends the task."""


class BadFile(Exception):
    """A file that cannot be read on; `record` counts the good records before the bad place."""

    def __init__(self, reason: str, record: int = 0) -> None:
        super().__init__(reason)
        self.record = record


class Unreadable(Exception):
    """A record, among those that were parsed together, that does not fit."""
