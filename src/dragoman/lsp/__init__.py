"""Language servers under an agent: diagnostics, definitions, renames, with the user's consent."""

from .diagnosing import diagnostics_of
from .edits import LanguageChange, LanguageEditError, Reader
from .process import LanguageServerError
from .requests import REQUESTS, LanguageAnswer, LanguageFile, LanguageRequest
from .server import LanguageServer
from .servers import LanguageServers
from .shown import diagnostic_lines, listed
from .table import LanguageTableError

__all__ = [
    "REQUESTS",
    "LanguageAnswer",
    "LanguageChange",
    "LanguageEditError",
    "LanguageFile",
    "LanguageRequest",
    "LanguageServer",
    "LanguageServerError",
    "LanguageServers",
    "LanguageTableError",
    "Reader",
    "diagnostic_lines",
    "diagnostics_of",
    "listed",
]
