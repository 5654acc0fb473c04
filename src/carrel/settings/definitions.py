"""The settings: every section and key, with its default and its explanation."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from carrel.common import UUID

TOOLSETS = ("catalog", "bridge", "notes", "tasks", "code", "journal")
CONTENT_TOOLSETS = ("catalog", "bridge")
"""Two contracts over the same content, whose tools share names: where both are served, catalog has its own endpoint."""
OPT_IN_TOOLSETS = ("journal",)
"""Served only where they are named."""


ENVIRONMENT_PREFIX = "CARREL_"


def _setting(
    default: Any,
    doc: str,
    *,
    choices: tuple[str, ...] = (),
    pattern: str = "",
    low: int = 0,
    high: int = 2**31,
) -> Any:
    return field(
        default=default, metadata={"doc": doc, "choices": choices, "pattern": pattern, "low": low, "high": high}
    )


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What is served, and where."""

    toolsets: tuple[str, ...] = _setting(
        (), "Toolsets to serve. Empty: every configured toolset except journal, which must be named."
    )
    read_only: bool = _setting(False, "Serve no tool that writes.")
    host: str = _setting("127.0.0.1", "Address that `carrel serve --http` listens on.")
    port: int = _setting(8765, "Port to listen on; 0 picks a free one.", high=65535)
    workers: int = _setting(1, "Number of processes that share the port.", low=1, high=256)
    public_url: str = _setting(
        "",
        "The public address if it differs, for example https://desk.example.com behind a proxy.",
        pattern=r"(https?://[^/?#\s@]+)?",
    )
    page: bool = _setting(True, "Serve the web page at `/` of `carrel serve --http`.")
    allowed_hosts: tuple[str, ...] = _setting((), "Host headers to accept besides the loopback names.")
    allowed_origins: tuple[str, ...] = _setting((), "Origin headers to accept besides loopback pages.")
    call_timeout: int = _setting(30, "Seconds after which a tool call is canceled.", low=1, high=3600)
    rate_limit: int = _setting(0, "Calls per minute for each client and tool; 0 means no limit.")
    log_format: str = _setting(
        "auto",
        "Format of the log on stderr; auto is text on a terminal and json otherwise.",
        choices=("auto", "text", "json"),
    )
    log_arguments: bool = _setting(False, "Log the arguments of calls too.")
    log_level: str = _setting("info", "Lowest level that is logged.", choices=("debug", "info", "warning", "error"))
    tracing: bool = _setting(
        False, "Send OpenTelemetry traces of calls (extra otel). Also on where OTEL_EXPORTER_OTLP_ENDPOINT is set."
    )


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """The database."""

    url: str = _setting(
        "sqlite:///.carrel/carrel.db", "sqlite:///FILE (relative to the workspace) or postgresql://USER@HOST/NAME."
    )
    pool_size: int = _setting(10, "PostgreSQL connections per process.", low=1, high=1000)
    direct_url: str = _setting(
        "",
        "The same PostgreSQL database past a pooler, where database.url leads through one: for migrations, locks and "
        "notices. Empty: as database.url.",
        pattern=r"(postgres(ql)?://\S+)?",
    )
    replica_url: str = _setting(
        "",
        "A streaming replica of it, from which content is read while it is no more than 5 seconds behind.",
        pattern=r"(postgres(ql)?://\S+)?",
    )


@dataclass(frozen=True, slots=True)
class ContentSettings:
    """The knowledge graph, as the catalog and bridge toolsets and the backend API show it."""

    backend_url: str = _setting(
        "",
        "Where the bridge toolset finds the backend API, /api/... left out. Empty: in this process.",
        pattern=r"(https?://[^/?#\s]*[^/?#\s@](/[^?#\s]*)?)?",
    )
    default_project: str = _setting(
        "00000000-0000-4000-a000-000000000001",
        "Id of the project that a request to the backend API without any is about. Empty: such requests are refused.",
        pattern=f"({UUID})?",
    )
    backend_token_env: str = _setting(
        "",
        "The environment variable that holds the token that the bridge shows at backend_url. Empty: none is sent.",
        pattern="([A-Za-z_][A-Za-z0-9_]*)?",
    )


@dataclass(frozen=True, slots=True)
class TasksSettings:
    """Task lists."""

    user: str = _setting("", "The only user whose tasks are served. Empty: the user that a call names.")


@dataclass(frozen=True, slots=True)
class NotesSettings:
    """A folder of markdown notes, or a graph database with them."""

    vault: str = _setting("notes", "The folder, from the workspace. Notes are served where it exists.")
    ignore: tuple[str, ...] = _setting(
        (), "Folders and files of it that are left out, besides hidden folders: templates, or archive/20*."
    )
    store: str = _setting(
        "files", "Where notes are kept: files is the vault, neo4j the database.", choices=("files", "neo4j")
    )
    neo4j_url: str = _setting(
        "",
        "The URL of Neo4j, such as neo4j://localhost:7687.",
        pattern=r"((neo4j|bolt)(\+s|\+ssc)?://[^/?#\s]+)?",
    )
    neo4j_user: str = _setting("neo4j", "The Neo4j user.")
    neo4j_password_env: str = _setting(
        "",
        "The environment variable with the Neo4j password. Empty: no password is sent.",
        pattern="([A-Za-z_][A-Za-z0-9_]*)?",
    )
    neo4j_database: str = _setting("", "The database to use. Empty: the server's own choice.", pattern=r"\S*")


@dataclass(frozen=True, slots=True)
class CodeSettings:
    """The code base and its knowledge."""

    root: str = _setting(
        ".", "The folder of the code, relative to the workspace. Empty: code is not served.", pattern=r"[^\x00]*"
    )
    name: str = _setting(
        "", "What it is called in a database that several share. Empty: as its folder.", pattern=r"[^\x00]{0,100}"
    )
    source_roots: tuple[str, ...] = _setting(
        (), "Folders that hold the sources; a module is a folder in one. Empty: the deepest that all sources share."
    )
    deny: tuple[str, ...] = _setting(
        (), "Names, or paths with a /, that nothing is read from, besides .git, .env, keys and the like: *.secret."
    )
    answer_without_meaning: bool = _setting(
        False, "Let context_search answer by words alone while the embedding provider fails."
    )


@dataclass(frozen=True, slots=True)
class CodeLimitsSettings:
    """Calls per minute for each client; 0 means no limit."""

    context_search: int = _setting(30, "Calls of context_search per minute.")
    read_file: int = _setting(100, "Calls of read_file per minute.")
    grep_codebase: int = _setting(60, "Calls of grep_codebase per minute.")
    grep_seconds: int = _setting(30, "Seconds per minute that all calls of grep_codebase may take together.")


@dataclass(frozen=True, slots=True)
class EmbeddingsSettings:
    """What turns texts into vectors, so that they are found by their meaning."""

    provider: str = _setting(
        "bundled",
        "bundled needs nothing else; openai is any server with /embeddings as OpenAI has it; none finds words only.",
        choices=("bundled", "openai", "ollama", "none"),
    )
    model: str = _setting("", "The model's name. Empty: the provider's own choice.", pattern=r"\S*")
    url: str = _setting(
        "",
        "Where the provider is, /embeddings or /api/embed left out. Empty: OpenAI itself, or Ollama on this machine.",
        pattern=r"(https?://[^/?#\s]*[^/?#\s@](/[^?#\s]*)?)?",
    )
    api_key_env: str = _setting(
        "", "The environment variable with the API key. Empty: no key is sent.", pattern="([A-Za-z_][A-Za-z0-9_]*)?"
    )
    dimensions: int = _setting(
        0, "Numbers in a vector, for models that let one choose; 0 is the model's own.", high=4000
    )


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """Authentication over HTTP. With tokens or an issuer set, every request needs a token."""

    tokens: bool = _setting(False, "Accept tokens from `carrel token create`.")
    issuer: str = _setting(
        "",
        "Take the access tokens (JWTs) of this OAuth issuer, named as in their iss claim.",
        pattern=r"(https?://\S+)?",
    )
    audience: tuple[str, ...] = _setting(
        (),
        "What one of them must be in their aud claim. Empty: server.public_url, or the address of loopback, or the "
        "endpoint's below it.",
    )
    jwks_url: str = _setting(
        "", "Where the issuer's public keys are; https, but on this machine.", pattern=r"(https?://[^/?#\s@]+\S*)?"
    )
    public_key_file: str = _setting(
        "", "A file with the issuer's public keys, from the workspace, instead: PEM or JWKS.", pattern=r"[^\x00]*"
    )
    algorithms: tuple[str, ...] = _setting(
        ("RS256", "PS256", "ES256", "ES384", "EdDSA"), "What their signatures may be made with."
    )
    leeway: int = _setting(30, "Seconds by which the issuer's clock may be off.", high=300)
    required_scopes: tuple[str, ...] = _setting((), "Scopes that every token must have, whatever it is used for.")
    projects_claim: str = _setting(
        "",
        "The claim that names the only projects a token opens; a token without it opens none. Empty: carrel_projects, "
        "for the tokens that have it.",
        pattern=r"\S*",
    )
    project_limits: tuple[str, ...] = _setting(
        (), "SUBJECT=PROJECT, one for each: a subject named here sees only the projects named with it, by slug or id."
    )


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Every write and every refusal, one line each: time, subject, tool, target and outcome, never content."""

    to: str = _setting(
        "log", "Where the lines go; `carrel audit` shows those in the database.", choices=("log", "database", "none")
    )


@dataclass(frozen=True, slots=True)
class LimitsSettings:
    """Limits for each client: rates, concurrency, sizes and timeouts."""

    storage: str = _setting(
        "memory",
        "Where calls are counted: memory is each process alone; database (PostgreSQL) or redis all servers together.",
        choices=("memory", "database", "redis"),
    )
    redis_url: str = _setting(
        "",
        "The URL of Redis, such as redis://localhost:6379/0.",
        pattern=r"((redis|rediss|unix)://\S+)?",
    )
    calls_a_minute: int = _setting(0, "Calls a minute of each client, all tools together; 0 sets no limit.")
    tools: tuple[str, ...] = _setting(
        (),
        "TOOL=CALLS_A_MINUTE, of each client: read_file=100. Beats server.rate_limit and [code.limits]; 0 is no limit.",
    )
    sign_ins_a_minute: int = _setting(
        30, "Failed sign-ins at the page a minute from one address (IPv6: one /64). 0 sets no limit."
    )
    concurrent_calls: int = _setting(
        256, "Calls of one client under way, in a process or by all that share limits.storage; 0 sets no limit."
    )
    result_bytes: int = _setting(
        32 * 1024 * 1024, "Bytes of a call's result as JSON; one that is larger becomes an error. 0 sets no limit."
    )
    body_bytes: int = _setting(4 * 1024 * 1024, "Maximum bytes of a request's body.", low=1024)
    header_bytes: int = _setting(32 * 1024, "Maximum bytes of all headers of a request.", low=1024, high=1024 * 1024)
    url_bytes: int = _setting(8 * 1024, "Maximum bytes of a request's path and query.", low=128, high=1024 * 1024)
    header_timeout: int = _setting(10, "Seconds within which a request's headers must arrive.", low=1, high=3600)
    body_timeout: int = _setting(30, "Seconds within which a request's body must arrive.", low=1, high=3600)
    keep_alive: int = _setting(5, "Seconds that an idle connection is kept open.", low=1, high=3600)
    send_timeout: int = _setting(60, "Seconds within which a client must read what it is sent.", low=1, high=3600)
    connections: int = _setting(512, "Connections per process; further ones are refused. 0 means no limit.")
    connections_per_address: int = _setting(
        256,
        "Of those, from one address (IPv6: one /64); any number from loopback. 0 sets no limit: for behind a proxy.",
    )


@dataclass(frozen=True, slots=True)
class Settings:
    server: ServerSettings = field(default_factory=ServerSettings)
    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    content: ContentSettings = field(default_factory=ContentSettings)
    tasks: TasksSettings = field(default_factory=TasksSettings)
    notes: NotesSettings = field(default_factory=NotesSettings)
    code: CodeSettings = field(default_factory=CodeSettings)
    code_limits: CodeLimitsSettings = field(default_factory=CodeLimitsSettings)
    embeddings: EmbeddingsSettings = field(default_factory=EmbeddingsSettings)
    auth: AuthSettings = field(default_factory=AuthSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    limits: LimitsSettings = field(default_factory=LimitsSettings)


@dataclass(frozen=True, slots=True)
class Setting:
    """One key, as the reference and `carrel init` show it."""

    section: str
    key: str
    default: Any
    doc: str
    choices: tuple[str, ...]
    pattern: str
    low: int
    high: int

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        return f"{ENVIRONMENT_PREFIX}{self.section}_{self.key}".replace(".", "_").upper()


def sections() -> dict[str, Any]:
    """By name; one within another has a dot in it."""
    defaults = Settings()
    return {section.name.replace("_", "."): getattr(defaults, section.name) for section in fields(defaults)}


def all_settings() -> Iterator[Setting]:
    for section, defaults in sections().items():
        for entry in fields(defaults):
            yield Setting(section, entry.name, getattr(defaults, entry.name), **entry.metadata)
