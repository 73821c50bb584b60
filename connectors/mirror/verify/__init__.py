"""`headrace mirror verify`: compares one cluster's copy in another with the original.

`command` is the command line; `verification` walks through one run of it, and compares the topics' settings;
`positions` finds the same record in both logs, `comparison` compares ranges, `groups` the consumer groups' offsets;
`report` shows the findings.
"""
