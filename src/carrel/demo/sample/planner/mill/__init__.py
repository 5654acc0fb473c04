"""The order planner of Mill Lane."""
