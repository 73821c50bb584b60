"""The routes: connectors, plugins, the worker, its administration, its metrics."""
