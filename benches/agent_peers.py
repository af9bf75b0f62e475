"""What other frameworks take for the same work; run by a Python that has them, prints one JSON object.

    python benches/agent_peers.py

Frameworks that are not installed, or that do not run, are left out. The models are in this process and answer at once:
ten turns of two parallel calls of a tool that does nothing, then a text; and a text of two thousand deltas.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

TURNS = 10
DELTAS = 2000
ROUNDS = 5

os.environ.setdefault("OPENAI_API_KEY", "none")
os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")


async def best_s(work: Callable[[], Awaitable[object]]) -> float:
    """The quickest of a few rounds, after one that warms up."""
    await work()
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await work()
        taken.append(time.perf_counter() - began)
    return min(taken)


async def pydantic_ai() -> dict[str, float]:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages: list[Any], info: Any) -> ModelResponse:
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        if turn < TURNS:
            return ModelResponse(parts=[ToolCallPart("noop", {"x": n}, f"c{turn}_{n}") for n in range(2)])
        return ModelResponse(parts=[TextPart("done")])

    async def deltas(messages: list[Any], info: Any) -> Any:
        for _ in range(DELTAS):
            yield "word "
            await asyncio.sleep(0)

    agent = Agent(FunctionModel(answer))

    @agent.tool_plain
    async def noop(x: int) -> str:
        """Does nothing."""
        return "ok"

    talker = Agent(FunctionModel(stream_function=deltas))

    async def stream() -> None:
        async with talker.run_stream("hi") as result:
            async for _ in result.stream_text(delta=True, debounce_by=None):
                pass

    return {"turn_s": await best_s(lambda: agent.run("hi")) / TURNS, "delta_s": await best_s(stream) / DELTAS}


async def langgraph() -> dict[str, float]:
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
    from langchain_core.tools import tool
    from langgraph.prebuilt import create_react_agent

    class Model(BaseChatModel):
        streams: bool = False

        @property
        def _llm_type(self) -> str:
            return "told"

        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
            turn = sum(isinstance(message, AIMessage) for message in messages)
            calls = [{"name": "noop", "args": {"x": n}, "id": f"c{turn}_{n}"} for n in range(2)] if turn < TURNS else []
            message = AIMessage("" if calls else "done", tool_calls=calls)
            return ChatResult(generations=[ChatGeneration(message=message)])

        async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
            return self._generate(messages)

    class Talker(Model):
        async def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
            for _ in range(DELTAS):
                yield ChatGenerationChunk(message=AIMessageChunk("word "))
                await asyncio.sleep(0)

    @tool
    async def noop(x: int) -> str:
        """Does nothing."""
        return "ok"

    graph = create_react_agent(Model(), [noop])
    talking = create_react_agent(Talker(), [])
    question = {"messages": [("user", "hi")]}

    async def stream() -> None:
        async for _ in talking.astream(question, stream_mode="messages"):
            pass

    run = lambda: graph.ainvoke(question, {"recursion_limit": 100})  # noqa: E731
    return {"turn_s": await best_s(run) / TURNS, "delta_s": await best_s(stream) / DELTAS}


async def openai_agents() -> dict[str, float]:
    from agents import Agent, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
    from agents.models.interface import Model
    from openai.types.responses import (
        Response,
        ResponseCompletedEvent,
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
        ResponseTextDeltaEvent,
    )

    set_tracing_disabled(True)

    def text(words: str) -> ResponseOutputMessage:
        block = ResponseOutputText(annotations=[], text=words, type="output_text")
        return ResponseOutputMessage(id="m", content=[block], role="assistant", status="completed", type="message")

    class Told(Model):
        async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
            messages = options.get("input")
            items = messages if isinstance(messages, list) else []
            turn = sum(1 for item in items if item.get("type") == "function_call") // 2
            output: list[Any] = [text("done")]
            if turn < TURNS:
                output = [
                    ResponseFunctionToolCall(
                        arguments=json.dumps({"x": n}), call_id=f"c{turn}_{n}", name="noop", type="function_call"
                    )
                    for n in range(2)
                ]
            return ModelResponse(output=output, usage=Usage(), response_id=None)

        async def stream_response(self, *args: Any, **options: Any) -> Any:
            for number in range(DELTAS):
                yield ResponseTextDeltaEvent(
                    content_index=0,
                    delta="word ",
                    item_id="m",
                    logprobs=[],
                    output_index=0,
                    sequence_number=number,
                    type="response.output_text.delta",
                )
                await asyncio.sleep(0)
            whole = Response(
                id="r",
                created_at=0,
                model="told",
                object="response",
                output=[text("word " * DELTAS)],
                parallel_tool_calls=True,
                tool_choice="auto",
                tools=[],
            )
            yield ResponseCompletedEvent(response=whole, sequence_number=DELTAS, type="response.completed")

    @function_tool
    async def noop(x: int) -> str:
        """Does nothing."""
        return "ok"

    agent = Agent(name="a", model=Told(), tools=[noop])
    talker = Agent(name="b", model=Told())

    async def stream() -> None:
        async for _ in Runner.run_streamed(talker, "hi").stream_events():
            pass

    run = lambda: Runner.run(agent, "hi", max_turns=50)  # noqa: E731
    return {"turn_s": await best_s(run) / TURNS, "delta_s": await best_s(stream) / DELTAS}


def main() -> None:
    """Measure every framework that is there."""
    found: dict[str, Any] = {}
    for name, measure in (("pydantic-ai", pydantic_ai), ("langgraph", langgraph), ("openai-agents", openai_agents)):
        try:
            found[name] = asyncio.run(measure())
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
