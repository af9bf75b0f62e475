"""A server of the library over HTTP that wants a login; its own authorization server says yes at once."""

import secrets
import sys
import time

from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthToken

LIFETIME_S = 3600


class YesToAll:
    """Registers everybody, grants everything, keeps it in memory; a refresh token is good once."""

    def __init__(self) -> None:
        self.clients = {}
        self.codes = {}
        self.access = {}
        self.refresh = {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        code = secrets.token_urlsafe(16)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        return self.tokens(client, authorization_code.scopes)

    async def load_refresh_token(self, client, refresh_token):
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        del self.refresh[refresh_token.token]
        return self.tokens(client, scopes or refresh_token.scopes)

    async def load_access_token(self, token):
        found = self.access.get(token)
        return found if found is not None and found.expires_at > time.time() else None

    async def revoke_token(self, token):
        self.access.pop(token.token, None)

    def tokens(self, client, scopes):
        access, refresh = f"access-{secrets.token_urlsafe(16)}", f"refresh-{secrets.token_urlsafe(16)}"
        ends = int(time.time()) + LIFETIME_S
        self.access[access] = AccessToken(token=access, client_id=client.client_id, scopes=scopes, expires_at=ends)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client.client_id, scopes=scopes)
        return OAuthToken(access_token=access, expires_in=LIFETIME_S, refresh_token=refresh, scope=" ".join(scopes))


def main() -> None:
    port = int(sys.argv[1])
    here = f"http://127.0.0.1:{port}"
    server = MCPServer(
        "guarded",
        auth_server_provider=YesToAll(),
        auth=AuthSettings(
            issuer_url=here,
            resource_server_url=f"{here}/mcp",
            client_registration_options=ClientRegistrationOptions(enabled=True),
            validate_token_resource=False,
        ),
    )

    @server.tool()
    def secret() -> str:
        """What only those who are logged in may know."""
        return "forty-two"

    server.run("streamable-http", host="127.0.0.1", port=port)


main()
