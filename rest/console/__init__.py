"""The console: pages for people, made in the worker, over the endpoints of the REST API.

Decided: each page asks the REST API, in the same process and as its own user, because rights, masking, the audit log
and forwarding then hold as they do for every other client; loses: the answers are written as JSON and read again. The
overview of 500 connectors takes 46 ms of processor time on a busy machine, 30 of them the list of statuses, so that
five that are open take 2.3 % of a core.
Decided: pages are complete HTML, and 76 lines of script bring parts of them up to date, because htmx has no package
that `make setup` could install but a jar, takes 50 kB, and needs its style and `eval` switched off for the content
security policy; loses: its attributes for anything that these lines do not do.
"""
