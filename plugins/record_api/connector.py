"""The part that sources and sinks over records share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from headrace.plugins.contracts import Connector, ConnectorContext, StopToken
from headrace.plugins.record_api.settings import WithSettings


class RecordConnector(WithSettings, Connector):
    """A connector whose task calls an object of the same class; `task` is the kind of that task."""

    retriable: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    """Errors after which the outside system may be there again."""

    stopping: StopToken
    """Set once the task has to end; wait by `self.stopping.wait(seconds)`."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.task_class = f"{cls.__module__}.{cls.__name__}"
        cls.task = type(f"{cls.__name__}Task", (cls.task,), {"author": cls})

    def open(self) -> Any:
        """Connect, before all other calls of a task; may be `async`."""

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Check the config. Errors: ConfigError with all problems."""
        self.take(config)
        self.given = dict(config)
