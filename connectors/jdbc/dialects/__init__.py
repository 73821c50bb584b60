"""The dialects of PostgreSQL, MariaDB with MySQL, and SQLite, one package each.

Nothing imports them: the entry point group `headrace.jdbc.dialect` names them, as it would another package's.
"""
