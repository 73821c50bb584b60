"""The JDBC sink: topics into tables. Begin with `task`; `transactions` is the way of one batch into its tables."""
