"""JDBC: tables into topics, topics into tables."""
