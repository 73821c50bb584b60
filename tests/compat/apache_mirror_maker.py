"""Apache's own MirrorMaker 2 as a dedicated process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

from tests.compat.apache_process import ApacheProcess
from tests.integration.worker_process import eventually


class ApacheMirrorMaker(ApacheProcess):
    """`connect-mirror-maker` with this file, for the clusters that `arguments` name or for all."""

    main: ClassVar = "org.apache.kafka.connect.mirror.MirrorMaker"

    def __init__(self, directory: Path, settings: Mapping[str, str], clusters: tuple[str, ...] = ()) -> None:
        found = {f"{alias.strip()}.plugin.discovery": "service_load" for alias in settings["clusters"].split(",")}
        super().__init__(directory, {"plugin.discovery": "service_load", **found, **settings})
        self.arguments = ("--clusters", *clusters) if clusters else ()

    def wait_replicating(self, flow: str, tasks: int = 1, within_s: float = 60) -> Self:
        """So many tasks of a flow (`A->B`) have said that they replicate."""

        def replicating() -> bool:
            return len(set(re.findall(rf"(\S+) replicating \d+ topic-partitions {flow}:", self.log))) >= tasks

        eventually(replicating, within_s, lambda: self.log[-3000:])
        return self
