"""Requests and answers: bodies, errors, layers, masking; nothing here knows a route."""
