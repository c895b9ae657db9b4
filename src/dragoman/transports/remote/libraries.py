"""Check for the libraries of WebSocket and HTTP: without them, this import raises an error that names the extra."""

from importlib.util import find_spec

from ...errors import MissingExtra

missing = [name for name in ("h11", "h2", "websockets") if find_spec(name) is None]
if missing:
    raise MissingExtra(f"WebSocket and HTTP need {', '.join(missing)}: pip install 'dragoman[remote]'")
