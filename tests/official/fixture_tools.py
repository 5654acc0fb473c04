"""The tools the conformance suite's server scenarios call by name."""

from __future__ import annotations

import base64
import io
import json
import warnings
import wave
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import PromptsListChanged, ServerEvent, SubscriptionBus, ToolsListChanged
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.message import ServerMessageMetadata

Context = ServerRequestContext[Any, Any]
Params = types.CallToolRequestParams
ToolResult = types.CallToolResult | types.InputRequiredResult
Handler = Callable[[Context, Params], Awaitable[ToolResult]]
JsonSchema = dict[str, Any]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="


def _silent_wav() -> str:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes(b"\x80" * 8)
    return base64.b64encode(buffer.getvalue()).decode()


WAV = _silent_wav()


@dataclass(frozen=True)
class ToolFixture:
    definition: types.Tool
    call: Handler


_FIXTURES: dict[str, ToolFixture] = {}


def _define(name: str, description: str, input_schema: JsonSchema, call: Handler) -> ToolFixture:
    return ToolFixture(types.Tool(name=name, description=description, input_schema=input_schema), call)


def _tool(name: str, description: str, input_schema: JsonSchema | None = None) -> Callable[[Handler], Handler]:
    def register(call: Handler) -> Handler:
        _FIXTURES[name] = _define(name, description, input_schema or object_schema(), call)
        return call

    return register


def tool_fixtures(bus: SubscriptionBus) -> dict[str, ToolFixture]:
    """Every tool by name, in the order listed; `bus` receives the change events two of them trigger."""

    def trigger(event: ServerEvent) -> Handler:
        async def call(ctx: Context, params: Params) -> ToolResult:
            await bus.publish(event)
            return text_result("Change announced.")

        return call

    triggers = {
        "test_trigger_tool_change": ToolsListChanged(),
        "test_trigger_prompt_change": PromptsListChanged(),
    }
    return _FIXTURES | {
        name: _define(name, "Announces a list change", object_schema(), trigger(event))
        for name, event in triggers.items()
    }


def object_schema(**properties: JsonSchema) -> JsonSchema:
    schema: JsonSchema = {"type": "object", "properties": properties}
    return schema | {"required": list(properties)} if properties else schema


STRING: JsonSchema = {"type": "string"}


def text_result(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


def image() -> types.ImageContent:
    return types.ImageContent(data=PNG, mime_type="image/png")


def embedded(uri: str, mime_type: str, text: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def form(message: str, schema: JsonSchema) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(prompt: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=100))


def input_required(state: str | None = None, /, **requests: types.InputRequest) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def form_answer(responses: types.InputResponses | None, key: str) -> dict[str, Any] | None:
    """The content the client accepted the form `key` with; None while it has not."""
    answer = (responses or {}).get(key)
    return answer.content if isinstance(answer, types.ElicitResult) and answer.action == "accept" else None


# --- plain results ---


@_tool("test_simple_text", "Returns one text block")
async def simple_text(ctx: Context, params: Params) -> ToolResult:
    return text_result("This is a simple text response for testing.")


@_tool("test_image_content", "Returns one image block")
async def image_content(ctx: Context, params: Params) -> ToolResult:
    return types.CallToolResult(content=[image()])


@_tool("test_audio_content", "Returns one audio block")
async def audio_content(ctx: Context, params: Params) -> ToolResult:
    return types.CallToolResult(content=[types.AudioContent(data=WAV, mime_type="audio/wav")])


@_tool("test_embedded_resource", "Returns one embedded resource")
async def embedded_resource(ctx: Context, params: Params) -> ToolResult:
    resource = embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    return types.CallToolResult(content=[resource])


@_tool("test_multiple_content_types", "Returns text, image and resource blocks")
async def multiple_content_types(ctx: Context, params: Params) -> ToolResult:
    data = json.dumps({"test": "data", "value": 123})
    return types.CallToolResult(
        content=[
            types.TextContent(text="Multiple content types test:"),
            image(),
            embedded("test://mixed-content-resource", "application/json", data),
        ]
    )


@_tool("test_error_handling", "Always fails")
async def error_handling(ctx: Context, params: Params) -> ToolResult:
    message = types.TextContent(text="This tool intentionally returns an error for testing")
    return types.CallToolResult(content=[message], is_error=True)


_ADDRESS_SCHEMA: JsonSchema = {
    "$anchor": "addressDef",
    "type": "object",
    "properties": {"street": STRING, "city": STRING},
}


@_tool(
    "json_schema_2020_12_tool",
    "Has an input schema that only JSON Schema 2020-12 can express",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": _ADDRESS_SCHEMA},
        "properties": {
            "name": STRING,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": STRING,
            "email": STRING,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
async def json_schema_2020_12(ctx: Context, params: Params) -> ToolResult:
    return text_result(json.dumps(params.arguments))


@_tool(
    "test_mirrored_header",
    "Mirrors its argument in a request header",
    object_schema(region=STRING | {"x-mcp-header": "Region"}),
)
async def mirrored_header(ctx: Context, params: Params) -> ToolResult:
    return text_result(json.dumps(params.arguments))


# --- notifications on the request's own stream ---


async def _log(ctx: Context, text: str) -> None:
    with warnings.catch_warnings():  # deprecated since 2026-07-28, and still asked for by the suite's 2025 scenarios
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        sending = ctx.session.send_log_message("info", text, related_request_id=ctx.request_id)  # pyright: ignore[reportDeprecated]
    await sending


@_tool("test_tool_with_logging", "Logs three messages while running")
async def log_three(ctx: Context, params: Params) -> ToolResult:
    await _log(ctx, "Tool execution started")
    await anyio.sleep(0.05)
    await _log(ctx, "Tool processing data")
    await anyio.sleep(0.05)
    await _log(ctx, "Tool execution completed")
    return text_result("Logged three messages.")


@_tool("test_logging_tool", "Logs one message")
async def log_one(ctx: Context, params: Params) -> ToolResult:
    await _log(ctx, "Sent only when the request asked for logs")
    return text_result("Logged one message.")


@_tool("test_tool_with_progress", "Reports progress 0, 50 and 100 of 100")
async def report_progress(ctx: Context, params: Params) -> ToolResult:
    await ctx.session.report_progress(0, 100)
    await anyio.sleep(0.05)
    await ctx.session.report_progress(50, 100)
    await anyio.sleep(0.05)
    await ctx.session.report_progress(100, 100)
    return text_result("Reported progress.")


# --- requests to the client, through 2025-11-25 ---


async def _elicit(ctx: Context, message: str, schema: JsonSchema) -> ToolResult:
    answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return text_result(f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}")


@_tool("test_sampling", "Asks the client's model", object_schema(prompt=STRING))
async def ask_model(ctx: Context, params: Params) -> ToolResult:
    answer = await ctx.session.send_request(
        sampling((params.arguments or {})["prompt"]),
        types.CreateMessageResult,
        metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
    )
    reply = answer.content.text if isinstance(answer.content, types.TextContent) else answer.content.type
    return text_result(f"LLM response: {reply}")


@_tool("test_elicitation", "Asks the user for a name and an address", object_schema(message=STRING))
async def ask_user(ctx: Context, params: Params) -> ToolResult:
    message = (params.arguments or {})["message"]
    return await _elicit(ctx, message, object_schema(username=STRING, email=STRING))


@_tool("test_elicitation_sep1034_defaults", "Asks the user with a default for every primitive type")
async def ask_with_defaults(ctx: Context, params: Params) -> ToolResult:
    states = ["active", "inactive", "pending"]
    schema = object_schema(
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": states, "default": "active"},
        verified={"type": "boolean", "default": True},
    )
    return await _elicit(ctx, "Please review the defaults", schema)


@_tool("test_elicitation_sep1330_enums", "Asks the user with every kind of enum")
async def ask_with_enums(ctx: Context, params: Params) -> ToolResult:
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    schema = object_schema(
        untitledSingle={"type": "string", "enum": options},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={"type": "string", "enum": options, "enumNames": ["One", "Two", "Three"]},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": options}},
        titledMulti={"type": "array", "items": {"anyOf": titled}},
    )
    return await _elicit(ctx, "Please choose", schema)


# --- input the client brings back in a second request, from 2026-07-28 ---

_ASK_NAME = form("What is your name?", object_schema(name=STRING))
_CONFIRM = form("Please confirm", object_schema(ok={"type": "boolean"}))


@_tool("test_missing_capability", "Refuses a client without sampling")
async def needs_sampling_capability(ctx: Context, params: Params) -> ToolResult:
    required = types.ClientCapabilities(sampling=types.SamplingCapability())
    if not ctx.session.check_client_capability(required):
        data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=required)
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This tool requires the sampling capability",
            data.model_dump(by_alias=True, exclude_none=True),
        )
    return text_result("The client supports sampling.")


@_tool("test_streaming_elicitation", "Needs a form, asked for in its result and never in a request")
async def needs_form_while_streaming(ctx: Context, params: Params) -> ToolResult:
    return await needs_form(ctx, params)


@_tool("test_input_required_result_elicitation", "Needs the user's name")
async def needs_form(ctx: Context, params: Params) -> ToolResult:
    answer = form_answer(params.input_responses, "user_name")
    if answer is None:
        return input_required(user_name=_ASK_NAME)
    return text_result(f"Hello, {answer.get('name')}!")


@_tool("test_input_required_result_sampling", "Needs an answer of the client's model")
async def needs_model(ctx: Context, params: Params) -> ToolResult:
    answer = (params.input_responses or {}).get("capital_question")
    if not isinstance(answer, types.CreateMessageResult):
        return input_required(capital_question=sampling("What is the capital of France?"))
    return text_result(answer.content.text if isinstance(answer.content, types.TextContent) else answer.model)


@_tool("test_input_required_result_list_roots", "Needs the client's roots")
async def needs_roots(ctx: Context, params: Params) -> ToolResult:
    answer = (params.input_responses or {}).get("client_roots")
    if not isinstance(answer, types.ListRootsResult):
        return input_required(client_roots=types.ListRootsRequest())
    return text_result(f"Roots: {', '.join(str(root.uri) for root in answer.roots)}")


async def _confirmed(params: Params) -> ToolResult:
    if params.request_state != "asked" or form_answer(params.input_responses, "confirm") is None:
        return input_required("asked", confirm=_CONFIRM)
    return text_result("state-ok")


@_tool("test_input_required_result_request_state", "Needs a confirmation that returns its state")
async def needs_state(ctx: Context, params: Params) -> ToolResult:
    return await _confirmed(params)


@_tool("test_input_required_result_tampered_state", "Needs a confirmation whose state nobody altered")
async def needs_untampered_state(ctx: Context, params: Params) -> ToolResult:
    return await _confirmed(params)


@_tool("test_input_required_result_multiple_inputs", "Needs a form, a model answer and the roots at once")
async def needs_several_inputs(ctx: Context, params: Params) -> ToolResult:
    requests: types.InputRequests = {
        "user_name": _ASK_NAME,
        "greeting": sampling("Generate a greeting"),
        "client_roots": types.ListRootsRequest(),
    }
    if params.request_state != "asked" or not requests.keys() <= (params.input_responses or {}).keys():
        return input_required("asked", **requests)
    return text_result("Every input arrived.")


@_tool("test_input_required_result_multi_round", "Needs two forms, one after the other")
async def needs_two_rounds(ctx: Context, params: Params) -> ToolResult:
    if params.request_state == "step2" and form_answer(params.input_responses, "step2") is not None:
        return text_result("Both steps answered.")
    if params.request_state == "step1" and form_answer(params.input_responses, "step1") is not None:
        return input_required("step2", step2=form("What is your favourite colour?", object_schema(color=STRING)))
    return input_required("step1", step1=_ASK_NAME)


@_tool("test_input_required_result_capabilities", "Asks only for what the client says it can do")
async def needs_declared_capabilities(ctx: Context, params: Params) -> ToolResult:
    declared = ctx.session.client_capabilities or types.ClientCapabilities()
    requests: types.InputRequests = {}
    if declared.elicitation is not None:
        requests["user_name"] = _ASK_NAME
    if declared.sampling is not None:
        requests["greeting"] = sampling("Generate a greeting")
    if not requests or requests.keys() <= (params.input_responses or {}).keys():
        return text_result("Nothing left to ask.")
    return input_required(**requests)
