"""JDBC: tables into topics (`source/`), topics into tables (`sink/`), of any database that has a dialect."""
