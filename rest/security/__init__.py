"""Who asks, what they may do, and the record of what they changed.

Begin with `principal.py`. `login.py` finds out who asks, `rights.py` says what they may do, `audit.py` writes down
what changed.
"""
