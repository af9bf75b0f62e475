"""Edge. Writes the catalogues anew: prices from the package genai-prices, the rest from `capabilities.toml`.

    pip install genai-prices && python -m lemon_ai.models.refresh          # write
    python -m lemon_ai.models.refresh --check                              # say what would change, write nothing

Codex models are those of OpenAI under another address; they are derived here, not listed. Where a price depends on
the length of the prompt, the first step is taken. Prices of tomorrow that the package already knows are not used.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from lemon_ai.models.schema import read_catalog

FOLDER: Final = Path(__file__).parent
_PRICES: Final = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}
_FREE: Final = dict.fromkeys(_PRICES, 0.0)
_CODEX: Final = re.compile(r"gpt-(5\.[1-9].*|6.*)")


def main(arguments: list[str] | None = None) -> int:
    """Write or check every catalogue; 1 when `--check` found a difference."""
    parser = argparse.ArgumentParser(prog="python -m lemon_ai.models.refresh", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail when something would change")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the catalogues are")
    chosen = parser.parse_args(arguments)
    try:
        catalogs = build(tomllib.loads((FOLDER / "capabilities.toml").read_text(encoding="utf-8")), _price_list())
    except ModuleNotFoundError:
        print("genai-prices is not installed: pip install genai-prices", file=sys.stderr)
        return 2
    changed = [name for name, entries in catalogs.items() if _write(chosen.folder, name, entries, dry=chosen.check)]
    count = sum(map(len, catalogs.values()))
    print(f"{len(catalogs)} catalogues, {count} models; changed: {', '.join(changed) or 'none'}")
    return 1 if chosen.check and changed else 0


def build(facts: Mapping[str, Any], prices: Mapping[str, Iterable[Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Every catalogue, by provider."""
    catalogs: dict[str, dict[str, dict[str, Any]]] = {}
    for provider in facts["provider"]:
        entries = [_entry(model, provider, facts["family"]) for model in prices.get(provider["source"], ())]
        kept = {entry["id"]: entry for entry in entries if entry is not None}
        catalogs[provider["name"]] = dict(sorted(kept.items()))
    catalogs["openai_codex"] = _codex(catalogs["openai"])
    for listed in facts["listed"]:
        catalogs[listed["provider"]] = {model["id"]: _listed(model, listed) for model in listed["models"]}
    return catalogs


def _price_list() -> dict[str, list[Any]]:
    from genai_prices.data import providers

    return {provider.id: provider.models for provider in providers}


def _entry(model: Any, provider: Mapping[str, Any], families: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    model_id = model.id
    for old, new in provider.get("replace", {}).items():
        model_id = model_id.replace(old, new, 1)
    if re.fullmatch(provider.get("skip", "(?!)"), model_id) or not re.fullmatch(provider.get("only", ".*"), model_id):
        return None
    if model.deprecated or (provider.get("needs_window") and not model.context_window):
        return None
    model_id = model_id.lower() if provider.get("lower") else model_id
    cost = _cost(model)
    if cost is None:
        return None
    family = _family(model_id, provider["name"], families)
    window = model.context_window or family.get("context_window", 0)
    longest = family.get("max_tokens", 16_384)
    entry = {
        "id": model_id,
        "name": (model.name or model_id).strip(),
        "api": provider["api"],
        "provider": provider["name"],
        "base_url": provider["base_url"],
        "reasoning": family.get("reasoning", False),
        "input": family.get("input", ["text"]),
        "cost": dict(_FREE) if provider.get("free") else cost,
        "context_window": window,
        "max_tokens": min(longest, window) if window else longest,
    }
    optional = ("compat", "adaptive_thinking", "reasoning_efforts")
    return entry | {name: family[name] for name in optional if name in family}


def _family(model_id: str, provider: str, families: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    for family in families:
        if re.fullmatch(family["provider"], provider) and re.fullmatch(family["ids"], model_id):
            return family
    return {}


def _cost(model: Any) -> dict[str, float] | None:
    """The four prices of today; None for what is not paid by the token of text."""
    prices = model.get_prices(datetime.now(tz=UTC), None) if _is_dated(model) else model.prices
    cost = {name: _dollars(getattr(prices, attribute, None)) for name, attribute in _PRICES.items()}
    return cost if cost["output"] or cost["input"] else (None if _is_unpriced(prices) else cost)


def _is_dated(model: Any) -> bool:
    return isinstance(model.prices, list)


def _is_unpriced(prices: Any) -> bool:
    return getattr(prices, "input_mtok", None) is None and getattr(prices, "output_mtok", None) is None


def _dollars(price: Any) -> float:
    return 0.0 if price is None else float(getattr(price, "base", price))


def _codex(openai: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    moved = {"api": "openai_codex_responses", "provider": "openai_codex", "base_url": "https://chatgpt.com"}
    chosen = {key: entry for key, entry in openai.items() if _CODEX.fullmatch(key) and "pro" not in key}
    return {key: {**entry, **moved, "cost": dict(_FREE)} for key, entry in chosen.items()}


def _listed(model: Mapping[str, Any], listed: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": model["id"],
        "name": model.get("name", model["id"]),
        "api": listed.get("api", "openai_completions"),
        "provider": listed["provider"],
        "base_url": listed["base_url"],
        "reasoning": model.get("reasoning", False),
        "input": model.get("input", ["text"]),
        "cost": dict(_FREE),
        "context_window": model["context_window"],
        "max_tokens": min(8_192, model["context_window"]),
    }


def _write(folder: Path, provider: str, entries: Mapping[str, Any], *, dry: bool) -> bool:
    lines = [f"  {json.dumps(key)}: {json.dumps(entry, ensure_ascii=False)}" for key, entry in entries.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    read_catalog(text, f"{provider}.json")
    path = folder / f"{provider}.json"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    if not dry:
        path.write_text(text, encoding="utf-8")
    return True


if __name__ == "__main__":
    raise SystemExit(main())
