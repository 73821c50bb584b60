"""Rules that judge configs of connectors and workers; `headrace lint`, the doctor, REST and the console share them.

A rule reads a config, what plugins declare, the worker's settings and facts of its Kafka cluster. It asks no outside
system. A value with a variable (`${file:…}`) is not judged, because its text may be a secret.
"""
