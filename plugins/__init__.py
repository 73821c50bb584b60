"""The door for plugin authors: begin with `contracts`, then `records` and `schema`; test a plugin with `testkit`.

The file connectors (`connectors/file/`) are made of this and of settings alone. `transforms/` has the built-in
transforms, `interop/` what the worker and the shipped plugins share.
"""
