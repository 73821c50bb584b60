"""What the worker does next with an error, drawn as a tree.

Exception
├── plugins.RetriableError      try the batch again, with back-off
│   └── spark.EngineLost        wait for the next Spark session first
├── plugins.DataError           this record cannot be processed: dead-letter it, or fail the task
└── everything else             fail the task
"""

from __future__ import annotations

from headrace.plugins.contracts import DataError


class RecordError(DataError):
    """A record was refused and `errors.tolerance` is none."""


class StoppedError(Exception):
    """The task was asked to end while it waited."""
