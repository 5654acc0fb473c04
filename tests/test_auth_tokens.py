"""What opens the door, and what does not, over real HTTP with a real issuer."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from carrel.auth.sign_in import SignInLimiter
from tests.databases import prepare_desk
from tests.issuers import AUDIENCE, Issuer, Signer, b64, encoded, hmac_signed, issuer
from tests.program import run_carrel_here
from tests.wire import MODERN, PLAIN, HttpServer, HttpWire, call, value

CLAIMS = {"sub": "ana"}
OTHER = Signer("first", "RS256")
CURVE = Signer("curve", "ES256")


@pytest.fixture(scope="module")
def origin() -> Iterator[Issuer]:
    with issuer() as running:
        running.published.append(CURVE.jwk)
        running.published.append({"kty": "oct", "kid": "secret", "k": b64(b"a shared secret that is long enough")})
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_desk(tmp_path_factory.mktemp("doors"))


@pytest.fixture(scope="module")
def server(folder: Path, origin: Issuer) -> Iterator[HttpServer]:
    settings = {
        "CARREL_AUTH_TOKENS": "true",
        "CARREL_AUTH_ISSUER": origin.name,
        "CARREL_AUTH_JWKS_URL": origin.jwks_url,
        "CARREL_AUTH_AUDIENCE": AUDIENCE,
        "CARREL_AUTH_LEEWAY": "5",
    }
    running = HttpServer(cwd=folder, **settings)
    yield running
    assert running.stop() == 143


def asked(server: HttpServer, *headers: tuple[str, str], path: str = "/tasks/mcp") -> httpx.Response:
    wire = HttpWire(MODERN, server.url, path)
    method, params = "tools/call", {"name": "list_tasks", "arguments": {"user_id": "ana"}}
    given = [*wire.headers(method, params).items(), ("Content-Type", "application/json"), *headers]
    response = wire.http.post(server.url + path, content=json.dumps(wire.message(method, params)), headers=given)
    wire.close()
    return response


def own_token(folder: Path, *options: str, days: str = "30") -> str:
    made = run_carrel_here(
        "token", "create", "--user", "ana", "--scopes", "tasks", "--days", days, *options, cwd=folder
    )
    return made.stdout.strip()


@pytest.mark.rule("doors.tokens.signed")
@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"aud": [AUDIENCE, "https://elsewhere.example"]},
        {"nbf": int(time.time()) - 10},
        {"exp": int(time.time()) + 10**6},
        {"scope": None, "scp": ["tasks"]},
        {"scope": "email tasks profile"},
        {"iat": None},
    ],
)
def test_a_token_of_the_issuer_comes_in(server: HttpServer, origin: Issuer, claims: dict[str, Any]) -> None:
    response = asked(server, ("Authorization", f"Bearer {origin.token(**claims)}"))
    assert response.status_code == 200
    assert value(response.json()["result"]) == []


@pytest.mark.rule("doors.tokens.signed")
@pytest.mark.parametrize("header", ["bearer {}", "BEARER {}", "Bearer  {}"])
def test_the_word_bearer_may_be_written_in_any_case(server: HttpServer, origin: Issuer, header: str) -> None:
    assert asked(server, ("Authorization", header.format(origin.token()))).status_code == 200


@pytest.mark.rule("doors.tokens.signed")
def test_a_token_signed_with_another_of_the_issuers_keys_comes_in(server: HttpServer, origin: Issuer) -> None:
    assert asked(server, ("Authorization", f"Bearer {CURVE.sign(origin.claims())}")).status_code == 200


def now(seconds: int) -> int:
    return int(time.time()) + seconds


def cut(text: str, part: int, kept: Callable[[str], str]) -> str:
    parts = text.split(".")
    parts[part] = kept(parts[part])
    return ".".join(parts)


def flipped(text: str) -> str:
    return ("B" if text[0] != "B" else "C") + text[1:]


def raw(origin: Issuer, header: Any, claims: Any) -> str:
    """Signed by the issuer's own key, whatever stands in it."""
    start = ".".join(each if isinstance(each, str) else encoded(each) for each in (header, claims))
    algorithm = jwt.get_algorithm_by_name("RS256")
    return f"{start}.{b64(algorithm.sign(start.encode(), origin.signer.key))}"


RS = {"alg": "RS256", "typ": "JWT", "kid": "first"}

FORGED: dict[str, Callable[[Issuer], str]] = {
    # of another time
    "expired": lambda o: o.token(exp=now(-60)),
    "expired just beyond the leeway": lambda o: o.token(exp=now(-8)),
    "without expiry": lambda o: o.token(exp=None),
    "expiry as text": lambda o: raw(o, RS, o.claims(exp="tomorrow")),
    "expiry a number as text": lambda o: raw(o, RS, o.claims(exp=str(now(600)))),
    "expiry true": lambda o: raw(o, RS, {**o.claims(), "exp": True}),
    "not before a number as text": lambda o: raw(o, RS, o.claims(nbf=str(now(-10)))),
    "issued at a number as text": lambda o: raw(o, RS, o.claims(iat=str(now(-10)))),
    "expiry null": lambda o: raw(o, RS, {**o.claims(), "exp": None}),
    "expiry infinite": lambda o: raw(
        o, RS, b64(json.dumps(o.claims()).replace(str(o.claims()["exp"]), "Infinity").encode())
    ),
    "expiry huge": lambda o: raw(o, RS, o.claims(exp=10**400)),
    "not yet valid": lambda o: o.token(nbf=now(60)),
    "not before as text": lambda o: raw(o, RS, o.claims(nbf="now")),
    "issued in the future": lambda o: o.token(iat=now(3600)),
    # of another place
    "another issuer": lambda o: o.token(iss="https://evil.example"),
    "the issuer with a slash": lambda o: o.token(iss=f"{o.name}/"),
    "without issuer": lambda o: o.token(iss=None),
    "issuer as a list": lambda o: raw(o, RS, o.claims(iss=[o.name])),
    "another audience": lambda o: o.token(aud="https://elsewhere.example"),
    "an audience that begins so": lambda o: o.token(aud=f"{AUDIENCE}.evil.example"),
    "the audience with a path": lambda o: o.token(aud=f"{AUDIENCE}/other"),
    "the audience in capitals": lambda o: o.token(aud=AUDIENCE.upper()),
    "without audience": lambda o: o.token(aud=None),
    "no audience in a list": lambda o: o.token(aud=[]),
    "audience a number": lambda o: raw(o, RS, o.claims(aud=1)),
    "audience an object": lambda o: raw(o, RS, o.claims(aud={AUDIENCE: True})),
    # of nobody
    "without subject": lambda o: o.token(sub=None),
    "an empty subject": lambda o: o.token(sub=""),
    "subject a number": lambda o: raw(o, RS, o.claims(sub=7)),
    "subject a list": lambda o: raw(o, RS, o.claims(sub=["ana"])),
    "a subject with a line feed": lambda o: o.token(sub="ana\nadmin"),
    "a subject with NUL": lambda o: o.token(sub="ana\0"),
    "a subject with a C1 control character": lambda o: o.token(sub="ana\x9b31m"),
    "a subject with the next line": lambda o: o.token(sub="ana\x85admin"),
    "a subject with a line separator": lambda o: o.token(sub="ana\u2028admin"),
    "a subject that turns its text around": lambda o: o.token(sub="ana\u202enimda"),
    "a subject beyond 500 characters": lambda o: o.token(sub="a" * 501),
    # wrongly signed
    "signed by another key of the same name": lambda o: OTHER.sign(o.claims()),
    "signed by an unknown key": lambda o: OTHER.sign(o.claims(), kid="unknown"),
    "signed by another key, no name": lambda o: jwt.encode(o.claims(), OTHER.key, "RS256"),
    "the name of another key": lambda o: o.signer.sign(o.claims(), kid="curve"),
    "a name that is a number": lambda o: raw(o, {**RS, "kid": 1}, o.claims()),
    "a name that is a path": lambda o: OTHER.sign(o.claims(), kid="../../../../dev/null"),
    "a name that is SQL": lambda o: OTHER.sign(o.claims(), kid="' OR 1=1 --"),
    "its own key in the header": lambda o: OTHER.sign(o.claims(), jwk=OTHER.jwk, kid="own"),
    "its own key's address in the header": lambda o: OTHER.sign(o.claims(), jku="http://127.0.0.1:9/keys", kid="own"),
    "its own certificate's address": lambda o: OTHER.sign(o.claims(), x5u="http://127.0.0.1:9/cert", kid="own"),
    "a certificate chain": lambda o: OTHER.sign(o.claims(), x5c=[b64(b"nothing")], kid="own"),
    "the signature of another token": lambda o: ".".join([*o.token(sub="eve").split(".")[:2], o.token().split(".")[2]]),
    "the claims of another token": lambda o: cut(o.token(), 1, lambda _: encoded(o.claims(scope="admin"))),
    "the header of another token": lambda o: cut(o.token(), 0, lambda _: encoded({**RS, "x": 1})),
    "a flipped signature": lambda o: cut(o.token(), 2, flipped),
    # another algorithm
    "algorithm none": lambda o: f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{encoded(o.claims())}.",
    "algorithm None": lambda o: f"{encoded({'alg': 'None', 'typ': 'JWT'})}.{encoded(o.claims())}.",
    "algorithm NONE with a signature": lambda o: (
        f"{encoded({'alg': 'NONE'})}.{encoded(o.claims())}.{o.token().split('.')[2]}"
    ),
    "algorithm none, signed": lambda o: raw(o, {**RS, "alg": "none"}, o.claims()),
    "HMAC with the public key in PEM": lambda o: hmac_signed(o.signer.pem, o.claims(), kid="first"),
    "HMAC with the public key's modulus": lambda o: hmac_signed(o.signer.jwk["n"].encode(), o.claims(), kid="first"),
    "HMAC with the shared secret of the JWKS": lambda o: hmac_signed(
        b"a shared secret that is long enough", o.claims(), kid="secret"
    ),
    "HMAC with nothing": lambda o: hmac_signed(b"", o.claims(), kid="first"),
    "an algorithm that is not taken": lambda o: jwt.encode(o.claims(), o.signer.key, "RS384", headers={"kid": "first"}),
    "an algorithm of another kind of key": lambda o: raw(o, {**RS, "alg": "ES256"}, o.claims()),
    "an unknown algorithm": lambda o: raw(o, {**RS, "alg": "RS257"}, o.claims()),
    "the algorithm in small letters": lambda o: raw(o, {**RS, "alg": "rs256"}, o.claims()),
    "no algorithm": lambda o: raw(o, {"typ": "JWT", "kid": "first"}, o.claims()),
    "algorithm a list": lambda o: raw(o, {**RS, "alg": ["RS256"]}, o.claims()),
    "a curve of another size": lambda o: jwt.encode(
        o.claims(), ec.generate_private_key(ec.SECP384R1()), "ES384", headers={"kid": "curve"}
    ),
    # not what is meant by a token
    "another type": lambda o: o.signer.sign(o.claims(), typ="dpop+jwt"),
    "what must be understood and is not": lambda o: o.signer.sign(o.claims(), crit=["exp"]),
    "compressed": lambda o: raw(o, {**RS, "crit": ["zip"], "zip": "DEF"}, o.claims()),
    "without signature": lambda o: o.token().rpartition(".")[0] + ".",
    "two parts": lambda o: o.token().rpartition(".")[0],
    "one part": lambda o: o.token().partition(".")[0],
    "five parts": lambda o: o.token() + ".a.b",
    "truncated in the signature": lambda o: o.token()[:-20],
    "truncated in the claims": lambda o: o.token()[:120],
    "with a blank in it": lambda o: o.token().replace(".", " .", 1),
    "twice in one header": lambda o: f"{o.token()} {o.token()}",
    "with a comma": lambda o: f"{o.token()}, Bearer {o.token()}",
    "padded base64": lambda o: cut(o.token(), 2, lambda part: part + "=="),
    "claims that are a list": lambda o: raw(o, RS, [o.claims()]),
    "claims that are text": lambda o: raw(o, RS, b64(b"ana")),
    "claims nested a million deep": lambda o: raw(o, RS, b64(b"[" * 5_000 + b"]" * 5_000)),
    "a header that is a list": lambda o: raw(o, [RS], o.claims()),
    "claims twice": lambda o: raw(o, RS, b64(json.dumps(o.claims()).replace('"aud"', '"aud": "x", "aud2"').encode())),
    "much too long": lambda o: o.token(more="x" * 20_000),
    "a word": lambda _: "token",
    "dots": lambda _: "..",
    "basic credentials": lambda _: base64.b64encode(b"ana:secret").decode(),
    "our prefix alone": lambda _: "carrel_",
    "our prefix, no secret": lambda _: "carrel_abcdefghabcdefgh",
    "one of ours that is not": lambda _: f"carrel_abcdefghabcdefgh_{'x' * 43}",
    "one of ours with SQL for an id": lambda _: "carrel_'OR'1'='1_x",
    "one of ours that goes on for long": lambda _: "carrel_" + "a" * 30_000,
}


@pytest.mark.rule("doors.tokens.forged")
@pytest.mark.parametrize("name", FORGED)
def test_a_forged_token_opens_nothing(server: HttpServer, origin: Issuer, name: str) -> None:
    response = asked(server, ("Authorization", f"Bearer {FORGED[name](origin)}"))
    refusal = (response.status_code, response.text, response.headers["www-authenticate"].partition(",")[0])
    assert refusal == (401, "A valid access token is needed", 'Bearer error="invalid_token"')


def test_the_table_of_forged_tokens_is_long_enough() -> None:
    assert len(FORGED) >= 60


@pytest.mark.rule("doors.tokens.forged")
def test_a_weak_key_of_the_issuer_signs_nothing(server: HttpServer, origin: Issuer) -> None:
    weak = Signer("weak", "RS256", rsa.generate_private_key(65537, 1024))  # noqa: S505 - what is to be refused
    origin.published.append(weak.jwk)
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        text = weak.sign(origin.claims())
    assert asked(server, ("Authorization", f"Bearer {text}")).status_code == 401


@pytest.mark.rule("doors.tokens.forged")
@pytest.mark.parametrize(
    "headers",
    [
        [("Authorization", "Basic {}")],
        [("Authorization", "Bearer")],
        [("Authorization", "DPoP {}")],
        [("Authorization", "{}")],
        [("X-Authorization", "Bearer {}")],
        [("Proxy-Authorization", "Bearer {}")],
        [("Cookie", "access_token={}")],
        [("Authorization", "Bearer {}"), ("Authorization", "Bearer {}")],
        [("Authorization", "Basic YTpi"), ("Authorization", "Bearer {}")],
    ],
)
def test_a_good_token_in_the_wrong_place_opens_nothing(
    server: HttpServer, origin: Issuer, headers: list[tuple[str, str]]
) -> None:
    given = [(name, text.format(origin.token())) for name, text in headers]
    assert asked(server, *given).status_code == 401
    assert asked(server, path=f"/tasks/mcp?access_token={origin.token()}").status_code == 401


@pytest.mark.rule("doors.tokens.needed")
@pytest.mark.parametrize("path", ["/mcp", "/tasks/mcp", "/metrics", "/", "/api/projects", "/api", "/nowhere", "/mcp/"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "DELETE"])
def test_nothing_is_behind_the_door_without_a_token(server: HttpServer, path: str, method: str) -> None:
    response = httpx.request(method, server.url + path, trust_env=False, verify=PLAIN)
    assert response.status_code == 401
    assert "error=" not in response.headers["www-authenticate"], "no token is no error"
    if path.startswith("/api"):
        expected = {"error": {"code": "UNAUTHORIZED", "message": "A valid access token is needed"}}
        assert response.json() == expected
    else:
        assert response.text == "A valid access token is needed"


@pytest.mark.rule("doors.tokens.needed")
def test_the_probes_are_open(server: HttpServer) -> None:
    for path in ("/healthz", "/readyz"):
        assert httpx.get(server.url + path, trust_env=False, verify=PLAIN).status_code == 200


@pytest.mark.rule("doors.tokens.own")
def test_a_token_of_our_own_comes_in_until_it_is_revoked(server: HttpServer, folder: Path) -> None:
    text = own_token(folder)
    header = ("Authorization", f"Bearer {text}")
    assert asked(server, header).status_code == 200
    for broken in (text[:-1], text + "x", text.upper(), text.replace("carrel_", "carrel"), text.swapcase()):
        assert asked(server, ("Authorization", f"Bearer {broken}")).status_code == 401
    run_carrel_here("token", "revoke", text.split("_")[1], cwd=folder)
    assert asked(server, header).status_code == 401


@pytest.mark.rule("doors.tokens.own")
def test_tokens_of_ours_are_no_use_where_only_an_issuers_are_taken(folder: Path, origin: Issuer) -> None:
    settings = {
        "CARREL_AUTH_ISSUER": origin.name,
        "CARREL_AUTH_JWKS_URL": origin.jwks_url,
        "CARREL_AUTH_AUDIENCE": AUDIENCE,
    }
    server = HttpServer(cwd=folder, **settings)
    assert asked(server, ("Authorization", f"Bearer {own_token(folder)}")).status_code == 401
    assert asked(server, ("Authorization", f"Bearer {origin.token()}")).status_code == 200
    assert server.stop() == 143


@pytest.mark.rule("doors.tokens.challenge")
@pytest.mark.rule("doors.tokens.metadata")
@pytest.mark.parametrize("path", ["/mcp", "/tasks/mcp", "/code/mcp"])
def test_the_refusal_leads_to_the_metadata_of_the_endpoint(server: HttpServer, origin: Issuer, path: str) -> None:
    challenge = httpx.post(server.url + path, trust_env=False, verify=PLAIN).headers["www-authenticate"]
    scopes = {"/mcp": "code:read tasks", "/tasks/mcp": "tasks", "/code/mcp": "code:read"}[path]
    address = f"{server.url}/.well-known/oauth-protected-resource{path}"
    assert challenge == f'Bearer scope="{scopes}", resource_metadata="{address}"'
    assert httpx.get(address, trust_env=False, verify=PLAIN).json() == {
        "resource": server.url + path,
        "authorization_servers": [origin.name],
        "scopes_supported": scopes.split(),
        "bearer_methods_supported": ["header"],
        "resource_name": "Carrel",
    }


@pytest.mark.rule("doors.tokens.metadata")
def test_the_root_has_metadata_and_what_is_not_served_has_none(server: HttpServer) -> None:
    well_known = f"{server.url}/.well-known/oauth-protected-resource"
    assert httpx.get(well_known, trust_env=False, verify=PLAIN).json()["resource"] == server.url
    for path in ("/nowhere", "/notes/mcp", "/mcp/", "x"):
        assert httpx.get(well_known + path, trust_env=False, verify=PLAIN).status_code == 404


@pytest.mark.rule("doors.tokens.signed")
def test_without_a_set_audience_a_token_is_for_the_endpoint_or_the_server_that_it_is_shown_to(
    folder: Path, origin: Issuer
) -> None:
    settings = {"CARREL_AUTH_ISSUER": origin.name, "CARREL_AUTH_JWKS_URL": origin.jwks_url}
    public = "https://desk.example:8443"
    server = HttpServer(cwd=folder, CARREL_SERVER_PUBLIC_URL=public, **settings)
    for audience, status in {
        f"{public}/tasks/mcp": 200,
        public: 200,
        f"{public}/": 200,
        f"{public}/mcp": 401,
        f"{public}/notes/mcp": 401,
        f"{server.url}/tasks/mcp": 401,
        "https://desk.example/tasks/mcp": 401,
    }.items():
        header = ("Authorization", f"Bearer {origin.token(aud=audience)}")
        assert asked(server, header).status_code == status, audience
    assert server.stop() == 143


@pytest.mark.rule("doors.tokens.audience")
def test_the_host_header_does_not_say_whom_a_token_is_made_for(folder: Path, origin: Issuer) -> None:
    settings = {"CARREL_AUTH_ISSUER": origin.name, "CARREL_AUTH_JWKS_URL": origin.jwks_url}
    server = HttpServer(cwd=folder, CARREL_SERVER_ALLOWED_HOSTS="other.example", **settings)
    port = server.url.rpartition(":")[2]
    for audience, host, status in (
        (f"{server.url}/tasks/mcp", f"127.0.0.1:{port}", 200),
        (server.url, f"localhost:{port}", 200),
        (f"http://localhost:{port}/tasks/mcp", f"localhost:{port}", 200),
        ("http://other.example", "other.example", 401),
        ("http://other.example/tasks/mcp", "other.example", 401),
        ("http://localhost:1/tasks/mcp", "localhost:1", 401),
        ("http://localhost", "localhost", 401),
        (f"https://127.0.0.1:{port}", f"127.0.0.1:{port}", 401),
    ):
        headers = (("Authorization", f"Bearer {origin.token(aud=audience)}"), ("Host", host))
        assert asked(server, *headers).status_code == status, (audience, host)
    assert server.stop() == 143


@pytest.mark.rule("doors.tokens.attempts")
def test_an_address_may_fail_to_sign_in_30_times_a_minute_and_locks_out_nobody(folder: Path, origin: Issuer) -> None:
    settings = {"ISSUER": origin.name, "JWKS_URL": origin.jwks_url, "AUDIENCE": AUDIENCE, "TOKENS": "true"}
    server = HttpServer(cwd=folder, **{f"CARREL_AUTH_{key}": text for key, text in settings.items()})
    valid = ("Authorization", f"Bearer {origin.token(sub='ana')}")
    requests = [asked(server, ("Authorization", f"Bearer wrong{number}")) for number in range(40)]
    assert [each.status_code for each in requests] == [401] * 40

    def sign_in(token: str) -> httpx.Response:
        return httpx.post(f"{server.url}/page/sign-in", data={"token": token}, trust_env=False, verify=PLAIN)

    tries = [sign_in(f"wrong{number}") for number in range(31)]
    assert [each.status_code for each in tries] == [401] * 30 + [429]
    assert "Too many attempts. Wait" in tries[-1].text
    assert 50 < int(tries[-1].headers["retry-after"]) <= 60
    assert sign_in(valid[1].removeprefix("Bearer ")).status_code == 429
    assert asked(server, valid).status_code == 200
    assert asked(server, ("Authorization", "Bearer wrong")).status_code == 401
    assert server.stop() == 143


@pytest.mark.rule("doors.tokens.attempts")
def test_failed_sign_ins_are_counted_by_network_over_a_sliding_minute() -> None:
    now = [1000.0]
    limiter = SignInLimiter(2, lambda: now[0])
    for address, second in (("2001:db8::1", 0), ("2001:db8::2", 30)):
        now[0] = 1000.0 + second
        assert limiter.retry_after(address) is None
        limiter.record_failure(address)
    assert [limiter.retry_after(each) for each in ("2001:db8::3", "2001:db8:1::", "::1", "")] == [
        30,
        None,
        None,
        None,
    ]
    now[0] = 1060.0
    assert limiter.retry_after("2001:db8::3") is None


@pytest.mark.rule("doors.scopes.user")
def test_the_task_user_is_the_tokens_subject(server: HttpServer, origin: Issuer) -> None:
    wire = HttpWire(MODERN, server.url)
    wire.http.headers["authorization"] = f"Bearer {origin.token(sub='Zoë')}"
    added = value(call(wire, "add_task", {"user_id": "Zoë", "title": "read"}))
    assert added["status"] == "created"
    other = value(call(wire, "list_tasks", {"user_id": "ana"}))
    assert other == {"error": "Forbidden", "details": "user_id is not the authenticated user"}
    assert 'The user is "Zoë"' in wire.request("server/discover")["result"]["instructions"]
    wire.close()
