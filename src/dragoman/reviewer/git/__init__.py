"""Git, asked in one place and in one way; `asking` says how, `repository` what."""

from .asking import RepositoryError
from .repository import ChangedFiles, Repository

__all__ = ["ChangedFiles", "Repository", "RepositoryError"]
