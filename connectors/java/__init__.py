"""Java plugins: their jars run unchanged in a host process with a JVM, and look like any other plugin from outside.

    worker:  plugin → connector, task, stage, stand_ins → hosts → process ─┐ wire
    host:    host/                                             ─┘

`process.py` and `host/__main__.py` are the two ends of the connection. `batches.py` makes Arrow arrays of the columns
that cross, and `sink_batches.py` does the reverse. `log_lines.py` is the form in which lines of Java's log cross;
`beans.py` names the beans that were read.
"""
