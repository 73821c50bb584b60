"""Plugins over records: what an author writes who has one record in mind, and no batch, schema or expression.

A source yields records, a sink is given lists of them, a transform and a predicate one each, a converter one value. All
else (validation, offsets, retries, dead letters, exactly once) is the worker's. All are plugins of the contracts
(`headrace.plugins.contracts`). Sources and sinks run in the worker. What moves more than some ten thousand records a
second is written over Arrow batches.
"""
