"""The worker, which runs connectors: its rooms from the floor up (`a → b`: b lies above a).

logging, machine, kafka, engine, group, embedded → storage, deadletters → pipeline, hosting → tasks → herder → cli →
process. Begin with a batch at `pipeline/source.py` and `pipeline/sink.py`, with a decision at `herder/api.py`, with
a start at `process/`. The modules beside the rooms hold the words that every room speaks.
"""
