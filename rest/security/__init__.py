"""Who asks, what they may do, and the record of what they changed.

Begin with `principal.py`. `login.py` finds out who asks, `rights.py` says what they may do, `access.py` has routes
declare what they need, `shown.py` leaves out what may not be seen, `audit.py` writes down what changed.
"""
