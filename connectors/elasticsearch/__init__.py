"""Topics into the indices of Elasticsearch and OpenSearch.

`connector.py` has the classes, `columns.py` makes documents, `writer.py` sends them."""
