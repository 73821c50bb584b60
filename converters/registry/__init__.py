"""The client of a schema registry.

Begin with `client.py`, which has a method for each look-up; `http.py` sends the requests.
"""
