"""Settings, each declared once (type, default, check, secret); properties files, variables and their providers.

Begin at `settings.py`. Three rooms build on this one, and each may use those before it: `kafka/` (settings of Kafka's
clients), `worker/` and `connector/`.
"""
