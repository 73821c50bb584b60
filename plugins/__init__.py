"""The door for plugin authors: begin with `contracts`, then `records` and `schema`; test a plugin with `testkit`.

`discovery` finds plugins. The built-in ones are in `transforms/`; `conversion/` applies converters to batches, and
`java/` and `catalyst/` are what the built-in ones are made of.
"""
