"""The official Python SDK, if it is here: whoever imports this module is skipped where it is not."""

import pytest

acp = pytest.importorskip("acp", reason="the official SDK is not installed (PyPI: agent-client-protocol)")
schema = acp.schema
