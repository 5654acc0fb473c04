"""How tools are used: calls, their outcomes and how long they took."""
