"""Logins of Claude: the ways to log in, a gateway instead of a login, and the single provider."""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ... import schema as s
from ...errors import InvalidParams, InvalidRequest, MethodNotFound
from ...foundation.documents import Document, Json
from ...foundation.programs import own_command
from .tools.shown import Input, words

META = "terminal-auth"
IDENTITY = "_auth/status_update"
ELSEWHERE = ("NO_BROWSER", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "CLAUDE_CODE_REMOTE")
GATEWAYS = {"gateway": "anthropic", "gateway-bedrock": "bedrock"}
API_TYPES = ("anthropic", "bedrock", "vertex")
SLOT = "main"
CLOUDS = {"bedrock": "AWS Bedrock", "vertex": "Google Vertex AI", "foundry": "Azure AI Foundry"}
PLACEHOLDER = "provided-by-the-gateway"  # the program requires a token, but the headers are what authenticates
# Variables about other providers and logins, which are removed from the environment for this provider.
FORGOTTEN = {
    "ANTHROPIC_API_KEY": "",
    "ANTHROPIC_AUTH_TOKEN": "",
    "ANTHROPIC_BASE_URL": "",
    "ANTHROPIC_BEDROCK_BASE_URL": "",
    "ANTHROPIC_VERTEX_BASE_URL": "",
    "CLAUDE_CODE_OAUTH_TOKEN": "",
    "CLAUDE_CODE_USE_BEDROCK": "0",
    "CLAUDE_CODE_USE_VERTEX": "0",
}


class ClaudeProvider(Struct, frozen=True):
    """The address to use for the model, instead of Anthropic's."""

    api_type: str
    base_url: str
    headers: Mapping[str, str] = {}

    def environment(self) -> dict[str, str]:
        """The variables that make the program use this address."""
        headers = "\n".join(f"{name}: {value}" for name, value in self.headers.items())
        told = {**FORGOTTEN, "ANTHROPIC_CUSTOM_HEADERS": headers}
        match self.api_type:
            case "bedrock":
                told["AWS_BEARER_TOKEN_BEDROCK"] = PLACEHOLDER
                return {**told, "CLAUDE_CODE_USE_BEDROCK": "1", "ANTHROPIC_BEDROCK_BASE_URL": self.base_url}
            case "vertex":
                told["CLAUDE_CODE_SKIP_VERTEX_AUTH"] = "1"
                return {**told, "CLAUDE_CODE_USE_VERTEX": "1", "ANTHROPIC_VERTEX_BASE_URL": self.base_url}
        return {**told, "ANTHROPIC_BASE_URL": self.base_url, "ANTHROPIC_AUTH_TOKEN": PLACEHOLDER}


def auth_methods(client: s.ClientCapabilities, *, hide_subscription: bool) -> list[s.AuthMethod]:
    """The ways to log in that this client can use."""
    meta = client.meta or {}
    in_meta = meta.get(META) is True
    methods: list[s.AuthMethod] = []
    if client.auth.terminal or in_meta:
        if any(os.environ.get(name) for name in ELSEWHERE):
            if not hide_subscription:
                told = "Run `claude /login` in the terminal"
                methods.append(_terminal("claude-login", "Log in with Claude", told, [], in_meta))
        else:
            if not hide_subscription:
                args = ["auth", "login", "--claudeai"]
                methods.append(
                    _terminal("claude-ai-login", "Claude Subscription", "Use a Claude subscription", args, in_meta)
                )
            told = "Use the Anthropic Console (billed by usage)"
            args = ["auth", "login", "--console"]
            methods.append(_terminal("console-login", "Anthropic Console", told, args, in_meta))
    if (client.auth.meta or {}).get("gateway") is True:
        for id, protocol in GATEWAYS.items():
            told = "Use a custom gateway to authenticate and access models"
            meta = {"gateway": {"protocol": protocol}}
            methods.append(s.AuthMethodAgent(id=id, name="Custom model gateway", description=told, meta=meta))
    return methods


def _terminal(id: str, name: str, told: str, args: list[str], in_meta: bool) -> s.AuthMethodTerminal:
    command, *rest = own_command("dragoman", "agent", "claude", "--cli", *args)
    meta = {META: {"command": command, "args": rest, "label": name}} if in_meta else None
    return s.AuthMethodTerminal(id=id, name=name, description=told, args=["--cli", *args], meta=meta)


def gateway_login(params: s.AuthenticateRequest) -> ClaudeProvider:
    """The gateway that a login names; any other login takes place in a terminal."""
    if params.method_id not in GATEWAYS:
        raise MethodNotFound("the client has to run this login in a terminal", {"methodId": params.method_id})
    given = (params.meta or {}).get("gateway")
    if not isinstance(given, dict):
        raise InvalidParams("a gateway needs _meta.gateway with its baseUrl")
    return checked_provider(GATEWAYS[params.method_id], given.get("baseUrl"), given.get("headers") or {})


def checked_provider(api_type: str, base_url: Json, headers: Json) -> ClaudeProvider:
    """The provider in a client's request; raises InvalidParams if it could not be used."""
    if api_type not in API_TYPES:
        raise InvalidParams(f"Claude has no API of type {api_type!r}: it is one of {', '.join(API_TYPES)}")
    if not isinstance(base_url, str) or not base_url.startswith(("http://", "https://")):
        raise InvalidParams("baseUrl must be an http or https address")
    try:
        named = msgspec.convert(headers, dict[str, str])
    except msgspec.ValidationError as exc:
        raise InvalidParams(f"headers: {exc}") from None
    if any("\n" in part or "\r" in part for pair in named.items() for part in pair):
        raise InvalidParams("a header must not contain line breaks")
    return ClaudeProvider(api_type, base_url, named)


def provider_list(provider: ClaudeProvider | None) -> s.ListProvidersResponse:
    """The list of the single provider, with its address."""
    if provider:
        current = s.ProviderCurrentConfig(api_type=provider.api_type, base_url=provider.base_url)
    else:
        url = os.environ.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com"
        current = s.ProviderCurrentConfig(api_type="anthropic", base_url=url)
    slot = s.ProviderInfo(provider_id=SLOT, supported=list(API_TYPES), required=True, current=current)
    return s.ListProvidersResponse(providers=[slot])


def check_slot(id: str) -> None:
    """Raise InvalidParams for an unknown provider."""
    if id != SLOT:
        raise InvalidParams(f"there is no provider {id!r}, only {SLOT!r}")


def check_disabling(id: str) -> None:
    """Raise for every provider, since Claude does not work without one."""
    check_slot(id)
    raise InvalidRequest("Claude needs its provider; set another one instead")


def is_subscription(account: Input) -> bool:
    """Whether the program is logged in with a Claude subscription and without a key."""
    if account.get("apiKeySource") not in (None, "none", ""):
        return False
    return bool(account.get("subscriptionType")) or account.get("tokenSource") in (
        "claude.ai",
        "oauth",
        "CLAUDE_CODE_OAUTH_TOKEN",
    )


def status_of(account: Input) -> s.AuthStatusResponse:
    """Who is logged in, as the program reports."""
    source = str(account.get("apiKeySource") or account.get("tokenSource") or "none")
    if source == "none":
        return s.AuthStatusResponse(state="unauthenticated")
    label = str(account.get("email") or source)
    entry = s.AuthAccount(
        label=label,
        active=True,
        email=words(account, "email") or None,
        organization=words(account, "organization") or None,
    )
    return s.AuthStatusResponse(state="authenticated", accounts=[entry])


def identity(account: Input, provider: ClaudeProvider | None) -> Document | None:
    """Who pays for the model, for clients that show it; None if the program does not report it."""
    if provider:
        return {"kind": "gateway", "label": "Custom model gateway", "detail": urlsplit(provider.base_url).netloc}
    source, plan = account.get("apiKeySource"), account.get("subscriptionType")
    backend = account.get("apiProvider")
    if backend and backend != "firstParty":
        return {"kind": "external", "label": CLOUDS.get(str(backend), str(backend))}
    if source and source != "none":
        return {"kind": "api_key", "label": "Anthropic API key", "detail": str(source)}
    if plan:
        known = {name: account[name] for name in ("email", "organization") if account.get(name)}
        label = str(plan).title()
        label = label if label.startswith("Claude") else f"Claude {label}"
        return {"kind": "account", "label": label, "account": {"plan": plan, **known}}
    return {"kind": "none", "label": "Not logged in"} if source or account.get("tokenSource") == "none" else None
