"""An MCP server for tests with OAuth: it is its own authorization server, whose page agrees at once."""

import secrets
import sys
import time
from typing import Any

from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthToken

KIND, PORT = sys.argv[1], int(sys.argv[2])
BASE = f"http://127.0.0.1:{PORT}"
LASTS = 3600


class Provider:
    """Grants whatever it is asked for, and knows what it granted."""

    def __init__(self) -> None:
        self.clients: dict[str, Any] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.refreshed = 0

    async def get_client(self, client_id: str) -> Any:
        return self.clients.get(client_id)

    async def register_client(self, client_info: Any) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: Any, params: Any) -> str:
        code = AuthorizationCode(
            code="granted_" + secrets.token_urlsafe(24),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> Any:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: Any) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._granted(client, authorization_code.scopes)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> Any:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: Any, scopes: list[str]) -> OAuthToken:
        del self.refresh[refresh_token.token]
        self.refreshed += 1
        return self._granted(client, scopes)

    async def load_access_token(self, token: str) -> Any:
        return self.access.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.access.pop(token.token, None)

    def _granted(self, client: Any, scopes: list[str]) -> OAuthToken:
        access, refresh = "access_" + secrets.token_urlsafe(24), "refresh_" + secrets.token_urlsafe(24)
        self.access[access] = AccessToken(token=access, client_id=client.client_id, scopes=scopes)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client.client_id, scopes=scopes)
        return OAuthToken(
            access_token=access,
            token_type="Bearer",
            expires_in=LASTS,
            refresh_token=refresh,
            scope=" ".join(scopes),
        )


provider = Provider()
server = MCPServer(
    "vault",
    auth_server_provider=provider,  # type: ignore[arg-type]
    auth=AuthSettings(
        issuer_url=BASE,
        resource_server_url=f"{BASE}/{'sse' if KIND == 'sse' else 'mcp'}",
        client_registration_options=ClientRegistrationOptions(enabled=True),
        validate_token_resource=False,
    ),
)


@server.tool()
def tokens() -> str:
    """Say every token there is, and how often one was refreshed."""
    return (
        f"{len(provider.clients)} clients, {provider.refreshed} refreshed: {[*provider.access, *provider.refresh]}"
    )


if __name__ == "__main__":
    server.run(KIND, host="127.0.0.1", port=PORT)
