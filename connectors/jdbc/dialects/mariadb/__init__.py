"""MariaDB and MySQL. Begin with `dialect`."""
