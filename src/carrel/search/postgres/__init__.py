"""An index in PostgreSQL, shared by any number of servers: words as tsvector, meaning with pgvector."""

from carrel.errors import MissingExtra

try:
    import psycopg_pool as psycopg_pool
except ImportError as error:
    raise MissingExtra("postgres", "search in PostgreSQL") from error
