"""Pure. The messages of one conversation, with what a model call needs to know about them kept up to date.

Nothing here looks at a message twice, so a turn costs the same after two thousand messages as after two.
"""

from collections.abc import Iterable

from lemon_agent.context import message_chars
from lemon_agent.errors import InvalidTranscript
from lemon_agent.events import AgentMessage
from lemon_agent.loop.config import convert_to_llm
from lemon_agent.loop.transcript import Pairing
from lemon_agent.security.external_content import shield
from lemon_ai import Message


class Conversation:
    """A growing list of messages."""

    __slots__ = ("_pairing", "chars", "llm", "messages")

    def __init__(self, messages: Iterable[AgentMessage] = ()) -> None:
        self.messages: list[AgentMessage] = []
        self.llm: list[Message] = []
        """What a model may read of it: known roles only, other people's words wrapped."""
        self.chars = 0
        self._pairing = Pairing()
        for message in messages:
            self.append(message)

    def __len__(self) -> int:
        return len(self.messages)

    def append(self, message: AgentMessage) -> None:
        """Add the next message."""
        self.messages.append(message)
        self.llm.extend(shield(convert_to_llm((message,))))
        self.chars += message_chars(message)
        self._pairing.feed(message)

    def take_back(self) -> None:
        """Remove the last message, an assistant's that called no tool and was never answered."""
        message = self.messages.pop()
        if self.llm and self.llm[-1] is message:
            self.llm.pop()
        self.chars -= message_chars(message)
        self._pairing.index -= 1

    def fork(self) -> "Conversation":
        """Another conversation that begins the same and goes its own way."""
        other = Conversation()
        other.messages = self.messages.copy()
        other.llm = self.llm.copy()
        other.chars = self.chars
        other._pairing = self._pairing.fork()
        return other

    def check(self) -> None:
        """Return when every tool call has its one result.

        Raises:
            InvalidTranscript: It has not; carries everything that is wrong.
        """
        found = self._pairing.violations()
        if found:
            raise InvalidTranscript(found)
