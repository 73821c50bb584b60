"""Builds and parses names of files and folders in the form of Confluent's connectors."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.connectors.hdfs.file_settings import NamingSettings
from headrace.connectors.hdfs.partitioners.topic_folders import TopicFolders
from headrace.plugins.offsets import TopicPartition


@dataclass(frozen=True)
class Names:
    """The names of one connector's files; picklable. Paths are relative to the store's root."""

    settings: NamingSettings
    extension: str

    def topic_folder(self, topic: str) -> str:
        """The folder that holds the topic's directories."""
        return TopicFolders(self.settings).of(topic)

    def partition_folder(self, of: TopicPartition) -> str:
        """The folder of a Kafka partition's uncommitted files and of its marker."""
        return f"{TopicFolders(self.settings).above(of.topic)}/+tmp/{of.topic}/{of.partition}"

    def file(self, topic: str, directory: str, of: TopicPartition, first: int, last: int) -> str:
        """The path of a file of `topic`, which differs from `of.topic` if a transform has renamed it."""
        return self.file_in("/".join(filter(None, (self.topic_folder(topic), directory))), of, first, last)

    def file_in(self, folder: str, of: TopicPartition, first: int, last: int) -> str:
        """The path of a file in this folder."""
        settings, width = self.settings, self.settings.zero_pad_width
        parts = [of.topic, str(of.partition), f"{first:0{width}d}", *([] if settings.is_s3 else [f"{last:0{width}d}"])]
        return f"{folder}/{settings.file_delimiter.join(parts)}{self.extension}"

    def offsets(self, path: str, of: TopicPartition) -> tuple[int, int] | None:
        """The first and last offset in a committed file's name of this partition; None for another file.

        In names without a last offset it is the first.
        """
        delimiter = re.escape(self.settings.file_delimiter)
        start = f"{re.escape(of.topic)}{delimiter}{of.partition}{delimiter}"
        found = re.fullmatch(rf"{start}(\d+)(?:{delimiter}(\d+))?(?:\.[\w.]+)?", path.rpartition("/")[2])
        return None if found is None else (int(found[1]), int(found[2] or found[1]))
