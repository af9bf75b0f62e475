"""Pure. The messages of one conversation, with what a model call needs to know about them kept up to date.

Nothing here looks at a message twice, so a turn costs the same after two thousand messages as after two.
"""

from collections.abc import Iterable, Sequence
from typing import Final, cast

from lemon_agent.context import message_chars
from lemon_agent.errors import InvalidTranscript
from lemon_agent.events import AgentMessage
from lemon_agent.loop.config import convert_to_llm
from lemon_agent.loop.transcript import Pairing
from lemon_agent.security.external_content import shield
from lemon_ai import AssistantMessage, Message, UserMessage

_SHOWN_AS_IT_IS: Final = (UserMessage, AssistantMessage)


class Conversation:
    """A growing list of messages. What is known of them is worked out when it is asked for, once for each message."""

    __slots__ = ("_chars", "_known", "_llm", "_pairing", "messages")

    def __init__(self, messages: Iterable[AgentMessage] = ()) -> None:
        self.messages: list[AgentMessage] = list(messages)
        self._known = 0
        self._llm: list[Message] | None = None
        """What a model may read of it, once that is something else than the messages themselves."""
        self._chars = 0
        self._pairing = Pairing()

    def __len__(self) -> int:
        return len(self.messages)

    def append(self, message: AgentMessage) -> None:
        """Add the next message."""
        self.messages.append(message)

    @property
    def llm(self) -> list[Message]:
        """What a model may read of it: known roles only, other people's words wrapped. Not to be changed."""
        self._learn()
        return cast("list[Message]", self.messages) if self._llm is None else self._llm

    @property
    def chars(self) -> int:
        """Its characters, counted as a model would be shown them."""
        self._learn()
        return self._chars

    def take_back(self) -> None:
        """Remove the last message, an assistant's that called no tool and was never answered."""
        self._learn()
        message = self.messages.pop()
        self._known -= 1
        if self._llm and self._llm[-1] is message:
            self._llm.pop()
        self._chars -= message_chars(message)
        self._pairing.index -= 1

    def copy(self) -> "Conversation":
        """Another conversation of the same messages, which knows nothing of them yet."""
        return Conversation(self.messages)

    def _learn(self) -> None:
        messages = self.messages
        if self._known == len(messages):
            return
        for index in range(self._known, len(messages)):
            message = messages[index]
            if not isinstance(message, _SHOWN_AS_IT_IS):
                self._show(index, shield(convert_to_llm((message,))))
            elif self._llm is not None:
                self._llm.append(message)
            self._chars += message_chars(message)
            self._pairing.feed(message)
        self._known = len(messages)

    def _show(self, index: int, shown: Sequence[Message]) -> None:
        """Let this be what a model reads in the place of a message."""
        if self._llm is None:
            if len(shown) == 1 and shown[0] is self.messages[index]:
                return
            self._llm = cast("list[Message]", self.messages[:index])
        self._llm.extend(shown)

    def check(self) -> None:
        """Return when every tool call has its one result.

        Raises:
            InvalidTranscript: It has not; carries everything that is wrong.
        """
        self._learn()
        found = self._pairing.violations()
        if found:
            raise InvalidTranscript(found)
