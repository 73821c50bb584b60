"""FileStreamSource and FileStreamSink: lines of a file, or of standard input and output.

Settings, topics and offset keys are those of Apache's connectors; positions are in bytes.
"""

from headrace.connectors.file.sink import FileStreamSinkConnector
from headrace.connectors.file.source import FileStreamSourceConnector

__all__ = ["FileStreamSinkConnector", "FileStreamSourceConnector"]
