"""`headrace mirror verify`: how far one cluster's copy in another is, and whether it is equal.

`command` is the command line; `verification` walks through one run of it; `positions` finds the same record in both
logs, `comparison` compares ranges, `groups` the consumer groups' offsets, `topic_settings` what topics are set to;
`report` shows what was found.
"""
