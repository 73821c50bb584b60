"""Apache Connect's transforms and predicates, and two of our own (`sql`, `python`).

Begin with `key_or_value`, the base of most, or with `routing`, the shortest.
"""
