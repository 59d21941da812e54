"""OAuth 2 as a company runs it: token, revocation and resource endpoints of python3-oauthlib."""
import base64
import secrets
import time
import types

from oauthlib.oauth2 import RequestValidator, Server

from company import Answer, System

SCOPES = ["contacts"]


class Clients(RequestValidator):
    """`tokens`: access token -> until when, scopes; `refresh`: those that are good, each once."""

    def __init__(self, client_id):
        self.client_id, self.secret = client_id, secrets.token_urlsafe(24)
        self.tokens, self.refresh, self.shown_in = {}, {secrets.token_urlsafe(24): SCOPES}, []

    def client_authentication_required(self, request, *_, **__):
        return True

    def authenticate_client(self, request, *_, **__):
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        if kind == "Basic":
            name, _, secret = base64.b64decode(text).decode().partition(":")
        else:
            name, secret = request.client_id, request.client_secret
        self.shown_in.append(kind or "body")
        request.client = types.SimpleNamespace(client_id=name)
        return (name, secret) == (self.client_id, self.secret)

    def validate_grant_type(self, client_id, grant_type, client, request, *_, **__):
        return grant_type in ("client_credentials", "refresh_token")

    def validate_scopes(self, client_id, scopes, client, request, *_, **__):
        return set(scopes) <= set(SCOPES)

    def get_default_scopes(self, client_id, request, *_, **__):
        return SCOPES

    def save_bearer_token(self, token, request, *_, **__):
        self.tokens[token["access_token"]] = time.time() + token["expires_in"], request.scopes
        if request.grant_type == "refresh_token":
            self.refresh[token["refresh_token"]] = request.scopes

    def validate_refresh_token(self, refresh_token, client, request, *_, **__):
        self.was, found = refresh_token, self.refresh.pop(refresh_token, None)
        return found is not None

    def get_original_scopes(self, refresh_token, request, *_, **__):
        return SCOPES

    def rotate_refresh_token(self, request):
        return True

    def validate_bearer_token(self, token, scopes, request):
        until, has = self.tokens.get(token, (0, []))
        return until > time.time() and set(scopes) <= set(has)

    def revoke_token(self, token, token_type_hint, request, *_, **__):
        self.tokens.pop(token, None)


class TokenServer(System):
    def __init__(self, client_id, lifetime):
        super().__init__()
        self.clients = Clients(client_id)
        self.server = Server(self.clients, token_expires_in=lifetime)

    @staticmethod
    def words(r):
        return f"https://{r.authority}{r.target}", r.method, r.read().decode(), {n.lower(): v for n, v in r.fields}

    def answer(self, r):
        ask = {"/token": self.server.create_token_response, "/revoke": self.server.create_revocation_response}.get(r.path)
        if ask is None:
            return Answer(404)
        fields, body, status = ask(*self.words(r))
        return Answer(status, (body or "").encode(), list(fields.items()))

    def check(self, r):
        return None

    def check_bearer(self, r):
        """What the company's systems ask before they answer."""
        is_good, _ = self.server.verify_request(*self.words(r), scopes=SCOPES)
        return None if is_good else "no token that is good here"
