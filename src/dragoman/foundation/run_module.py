"""`python -I run_module.py NAME ARGUMENT…`: run a module of this installation, as `python -m` would.

An isolated Python finds what is installed for everybody, or in a virtual environment.  It does not look in the
user's own site directory, nor at PYTHONPATH.  The directory this package was installed in is therefore added, after
all others.
"""

import os
import runpy
import sys

installed = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
if installed not in sys.path:
    sys.path.append(installed)
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
