"""Which LLM endpoints the agent uses, set by the client.  Unstable."""

from collections.abc import Mapping, Sequence
from typing import Literal

from .base import Exact, Lenient, Model

ProviderId = str
LlmProtocol = Literal["anthropic", "openai", "azure", "vertex", "bedrock"] | str


class ProviderCurrentConfig(Model, kw_only=True):
    """Where a provider points to now; headers are secrets and never listed."""

    api_type: LlmProtocol
    base_url: str


class ProviderInfo(Model, kw_only=True):
    """No `current` means disabled; a `required` provider cannot be disabled."""

    provider_id: ProviderId
    supported: Lenient[Sequence[LlmProtocol]]
    required: bool
    current: Exact[ProviderCurrentConfig | None] = None


class ListProvidersRequest(Model):
    """Asks for the model providers."""


class ListProvidersResponse(Model, kw_only=True):
    """The model providers the client may configure."""

    providers: Sequence[ProviderInfo]


class SetProviderRequest(Model, kw_only=True):
    """Replaces the whole configuration of a provider: headers left out are gone."""

    provider_id: ProviderId
    api_type: LlmProtocol
    base_url: str
    headers: Exact[Mapping[str, str]] = {}


class SetProviderResponse(Model):
    """An empty response: it is done."""


class DisableProviderRequest(Model, kw_only=True):
    """Stops the use of a model provider."""

    provider_id: ProviderId


class DisableProviderResponse(Model):
    """An empty response: it is done."""
