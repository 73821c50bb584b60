"""Java plugins: their jars run unchanged in a host process with a JVM, and look like any other plugin from outside.

    worker:  plugin → connector, task → hosts → process ─┐ wire
    host:    host → hosted, contexts → jvm, *.java      ─┘

`process.py` and `host.py` are the two ends of the connection; `records.java` turns polled records into columns and
`batches.py` makes Arrow arrays of them. Only the host imports `jpype`.
"""
