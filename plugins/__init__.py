"""The door for plugin authors: begin with `contracts`, then `records` and `schema`; test a plugin with `testkit`.

`discovery` finds plugins. `transforms/` has the built-in ones, `conversion/` applies converters to batches, and `java/`
and `catalyst/` serve the built-in ones.
"""
