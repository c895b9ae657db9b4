"""The experiments on the protocol engine: each a function of its size, seeded, so that it can be run again.

`tests/` runs them small, in seconds; `test_full_size.py` runs them as large as they were meant (make torture).
"""
