"""Edge. The open questions of one session: each is put to the person by a process of its own, which ends with it.

Permissions are asked as such. Everything else is a form where the client has forms, else a choice; words that nobody
can be asked for are not answered.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import define, field

from coding_agent.acp import question_shapes as shapes
from coding_agent.acp.client_calls import Capabilities, ClientCalls
from coding_agent.acp.wire import Refused
from coding_agent.hosting.dialogs import Question
from lemon_otp import Pid, exit_signal, spawn


@define(eq=False)
class Questions:
    """What is being asked.

    Attributes:
        calls: Asks the client.
        can: What it said it can do.
        announced: Waited for before a question is put that is about a call.
        answer: Takes the answer to a question, by its id.
    """

    calls: ClientCalls
    can: Capabilities
    announced: Callable[[str], Awaitable[None]]
    answer: Callable[[str, Mapping[str, Any]], object]
    _open: dict[str, Pid] = field(factory=dict, init=False)

    def put(self, question: Question) -> None:
        """Ask; returns at once."""
        self._open[question.id] = spawn(self._ask, question, label="acp_question")

    def close(self, question_id: str) -> None:
        """It was answered elsewhere, or is not asked any more: the client is told to take it away."""
        asking = self._open.pop(question_id, None)
        if asking is not None:
            exit_signal(asking, "shutdown")

    async def _ask(self, question: Question) -> None:
        """Process."""
        options = shapes.options_of(question)
        try:
            value = await self._answered(question, options)
        except (Refused, ConnectionError):
            value = None
        self._open.pop(question.id, None)
        self.answer(question.id, shapes.response_of(question, options, value))

    async def _answered(self, question: Question, options: list[str]) -> str | None:
        """What the person says, in the words of the question; None when nothing."""
        if call_id := str(question.fields.get("toolCallId") or ""):
            await self.announced(call_id)
        if not shapes.is_permission(question):
            url = question.fields.get("url")
            if isinstance(url, str) and self.can.pages:
                answer = await self.calls.elicit(shapes.page_of(question, url))
                return {"accept": options[0], "decline": options[-1]}.get(str(answer.get("action")))
            if self.can.forms:
                return shapes.filled_in(await self.calls.elicit(shapes.form_of(question, options)))
        if not options:
            return None
        chosen = await self.calls.permission(shapes.call_in_question(question), shapes.offered(question, options))
        return (
            options[int(chosen)] if chosen is not None and chosen.isdecimal() and int(chosen) < len(options) else None
        )
