"""The trial of a sandbox: a program inside tries to get out (`escapes.py`), and we look at what it did to the outside."""

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .children import Keeper, Order, StartError
from .sandbox import Sandbox
from .seccomp import forbidden_calls

NOBODY = (65534, 65534)
PATIENCE = 30.0  # seconds
ATTEMPTS = 60  # fewer were made: it was not a trial
