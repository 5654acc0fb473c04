"""What one client may ask for: how often, how much at once, how large and how slowly."""

from carrel.mcp.limits.budgets import TimeBudget
from carrel.mcp.limits.calls import CallLimits
from carrel.mcp.limits.rates import RateLimiter, tool_rates
from carrel.mcp.limits.shared import SharedLimits, Windows

__all__ = ["CallLimits", "RateLimiter", "SharedLimits", "TimeBudget", "Windows", "tool_rates"]
