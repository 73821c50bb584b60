"""The dialects of PostgreSQL, MariaDB with MySQL, and SQLite, one package each.

Nothing imports them: they are found by the entry point group `headrace.jdbc.dialect`, as another package's would be.
"""
