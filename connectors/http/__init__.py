"""HTTP sinks and sources under the class names of Confluent, Aiven and castorm; one engine each for sink and source.

`sink/` sends records, `source/` polls; what both need stands here: the login, the bounds of addresses, the attempts.
"""
