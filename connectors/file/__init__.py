"""FileStreamSource and FileStreamSink: lines of a file, or of standard input and output.

As Apache's connectors in settings, topics and offset keys, with positions in bytes; see `source` and `sink`.
"""

from headrace.connectors.file.sink import FileStreamSinkConnector
from headrace.connectors.file.source import FileStreamSourceConnector

__all__ = ["FileStreamSinkConnector", "FileStreamSourceConnector"]
