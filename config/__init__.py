"""Settings, each declared once (type, default, check, secret); properties files, variables and their providers.

What every configuration is made of stands here: begin at `settings.py`. Above it are three rooms, each of which may use
those before it: `kafka/` (settings of Kafka's clients), `worker/` and `connector/`.
"""
