"""What one client may ask for: how often, how much at once, how large and how slowly."""

from carrel.mcp.limits.call_limits import CallLimits, TimeBudget
from carrel.mcp.limits.rate_limits import RateLimiter, RateStore, SharedLimits, tool_rates

__all__ = ["CallLimits", "RateLimiter", "RateStore", "SharedLimits", "TimeBudget", "tool_rates"]
