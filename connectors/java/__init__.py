"""Java plugins: their jars run unchanged in a host process with a JVM, and behave like any other plugin.

    worker:  plugin → connector, task, stage, stand_ins → hosts → process ─┐ wire
    host:    host/                                             ─┘

`process.py` and `host/__main__.py` are the two ends of the connection. `batches.py` turns the received columns into
Arrow arrays, and `sink_batches.py` does the reverse. `log_lines.py` defines how lines of Java's log are sent;
`beans.py` names the beans that were read.
"""
