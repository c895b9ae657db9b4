"""Model providers that a client can configure: kept while the connection lasts, and not used."""

from msgspec.structs import replace

from .. import schema as s
from ..agent.agent import Agent
from ..connection.remotes import RemoteClient
from ..errors import InvalidParams

PROVIDERS = (
    s.ProviderInfo(
        provider_id="main",
        supported=["anthropic", "openai"],
        required=True,
        current=s.ProviderCurrentConfig(api_type="anthropic", base_url="https://models.example/v1"),
    ),
    s.ProviderInfo(provider_id="spare", supported=["openai"], required=False),
)


class WithProviders(Agent):
    """An agent with two providers, one of them required."""

    def __init__(self, client: RemoteClient) -> None:
        super().__init__(client)
        self._providers = {provider.provider_id: provider for provider in PROVIDERS}

    async def list_providers(self, params: s.ListProvidersRequest) -> s.ListProvidersResponse:
        """List the providers with their endpoints."""
        return s.ListProvidersResponse(providers=list(self._providers.values()))

    async def set_provider(self, params: s.SetProviderRequest) -> s.SetProviderResponse:
        """Set the endpoint of a provider."""
        provider = self._providers.get(params.provider_id)
        if provider is None:
            raise InvalidParams(f"there is no provider {params.provider_id!r}")
        if params.api_type not in provider.supported:
            raise InvalidParams(f"the provider {params.provider_id!r} does not speak {params.api_type!r}")
        current = s.ProviderCurrentConfig(api_type=params.api_type, base_url=params.base_url)
        self._providers[params.provider_id] = replace(provider, current=current)
        return s.SetProviderResponse()

    async def disable_provider(self, params: s.DisableProviderRequest) -> s.DisableProviderResponse:
        """Disable a provider that is not required."""
        provider = self._providers.get(params.provider_id)
        if provider is not None and provider.required:
            raise InvalidParams(f"the provider {params.provider_id!r} cannot be disabled")
        if provider is not None:
            self._providers[params.provider_id] = replace(provider, current=None)
        return s.DisableProviderResponse()
