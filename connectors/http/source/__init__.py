"""Polls an HTTP API: `asking.py` sends, `pages.py` goes from page to page, one module for each vendor's settings."""
