"""Settings, each declared once (type, default, check, secret); properties files, variables and their providers.

Begin at `settings.py`. Four rooms build on this one: `plugin_path/` (jars on `plugin.path`), which uses no other of
them; `kafka/` (settings of Kafka's clients), `worker/` and `connector/`. Each of these three may use those before it.
"""
