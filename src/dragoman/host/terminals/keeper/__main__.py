"""`python -I -S DIRECTORY DESCRIPTOR OWNER`: run the keeper without any installed packages."""

import importlib
import os
import sys

place = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(place))
importlib.import_module(f"{os.path.basename(place)}.program").main()
