"""Connectors over records: what an author writes who has one record in mind, and no batch, schema or expression.

A source yields records, a sink is given lists of them; all else (validation, offsets, retries, dead letters, exactly
once) is the worker's. Both are connectors of the contracts (`headrace.plugins.contracts`), and run where small batches
do: in the worker. What moves more than some ten thousand records a second is written over Arrow batches.
"""
