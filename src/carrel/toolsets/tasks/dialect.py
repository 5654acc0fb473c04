"""The error dialect of the tasks contract."""

from carrel.mcp.toolset import ErrorObject
from carrel.mcp.validation import Violation
from carrel.tasks.task import DESCRIPTION_TOO_LONG, TITLE_REQUIRED, TITLE_TOO_LONG, USER_ID_LIMIT

BAD_USER: ErrorObject = {"error": "Bad Request", "details": "user_id must be a non-empty string"}
USER_TOO_LONG: ErrorObject = {
    "error": "Bad Request",
    "details": f"user_id must be {USER_ID_LIMIT} characters or less",
}
NOT_THE_USER: ErrorObject = {"error": "Forbidden", "details": "user_id is not the authenticated user"}
BAD_TASK_ID: ErrorObject = {"error": "Invalid task ID"}

_BY_RULE = {
    ("title", "required"): TITLE_REQUIRED,
    ("title", "minLength"): TITLE_REQUIRED,
    ("title", "maxLength"): TITLE_TOO_LONG,
    ("description", "maxLength"): DESCRIPTION_TOO_LONG,
}
_FAILED = {
    "add_task": "Failed to create task",
    "list_tasks": "Failed to list tasks",
    "complete_task": "Failed to complete task",
    "delete_task": "Failed to delete task",
    "update_task": "Failed to update task",
}


class TasksDialect:
    def invalid(self, tool: str, violations: list[Violation]) -> ErrorObject:
        first = violations[0]
        field = str(first.path[0])
        if field == "user_id":
            return USER_TOO_LONG if first.rule == "maxLength" else BAD_USER
        if field == "task_id":
            return BAD_TASK_ID
        if field == "status":
            return {"error": "Invalid status", "details": "status must be one of all, pending, completed"}
        if (message := _BY_RULE.get((field, first.rule))) is not None:
            return {"error": message}
        return {"error": "Bad Request", "details": f"{field} must be a string"}

    def failed(self, tool: str) -> ErrorObject:
        return {"error": _FAILED[tool]}

    def timed_out(self, tool: str, seconds: float) -> ErrorObject:
        return self.failed(tool)

    def rate_limited(self, tool: str, retry_after: int) -> ErrorObject:
        return {"error": f"Rate limit exceeded for {tool}", "retryAfter": retry_after}

    def too_large(self, tool: str, message: str) -> ErrorObject:
        return {"error": "Result too large", "details": message}
