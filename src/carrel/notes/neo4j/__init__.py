"""Notes in Neo4j: `(:Node {id, title, content, tags})-[:LINKS_TO]->(:Node)`."""

from carrel.notes.neo4j.connection import Connection
from carrel.notes.neo4j.neo4j_store import Neo4jStore

__all__ = ["Connection", "Neo4jStore"]
