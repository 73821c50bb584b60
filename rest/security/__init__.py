"""The requester, the rights, and the record of changes.

Begin with `principal.py`. `login.py` finds the principal, `rights.py` decides on rights, `access.py` lets routes
declare the rights they need, `view_filter.py` leaves out what the requester may not see, `audit.py` records changes.
"""
