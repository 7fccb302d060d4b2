"""The command line: `smoldesk-cli`, or `python -m engine`.

An expected error is one line on stderr and exit code 2; a bug is a traceback and 1.
"""

import argparse
import dataclasses
import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.arguments import (
    USAGE_ERROR,
    bench_parts,
    check_ids,
    options_from,
    parser_for,
    read_ids,
    read_messages,
    read_text,
)
from engine.errors import EngineError, OptionsError
from engine.openmp import share_cores

INTERRUPTED = 130
OUTPUT_UNWANTED = 141  # as the shell has it for a program ended by a closed pipe


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit code."""
    _settle_streams()
    commands = (chat, complete, logits, tokenize, bench, models)
    wish = parser_for({run.__name__: run for run in commands}).parse_args(arguments)
    share_cores()
    try:
        wish.run(wish)
        sys.stdout.flush()
    except EngineError as error:
        print(f"smoldesk-cli: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        _end_compiling()
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has left
        _abandon_output()
        return OUTPUT_UNWANTED
    except OSError as error:  # such as a full disk under the output
        _abandon_output()
        print(f"smoldesk-cli: The system refused: {error.strerror or error}.", file=sys.stderr)
        return USAGE_ERROR
    return 0


def _settle_streams() -> None:
    """Make reading and writing text work whatever the terminal can show, or without one."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
        else:
            stream.reconfigure(errors="replace")


def _end_compiling() -> None:
    """A compiler at work on a thread of its own would go on while Python takes itself apart."""
    module = sys.modules.get("engine.step.compiled")
    if module and any(thread.name == module.COMPILING for thread in threading.enumerate()):
        sys.stdout.flush()
        os._exit(INTERRUPTED)


def _abandon_output() -> None:
    """Python would complain again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def chat(wish: argparse.Namespace) -> None:
    """Talk in the terminal; Ctrl+C stops a reply, /new starts again, /quit or Ctrl+D ends."""
    from engine.terminal_chat import talk, why_ended

    options = options_from(wish)
    engine = _load(wish)
    if sys.stdin.isatty() and not wish.json:
        print(f"{engine.name} on {engine.device.label}. /new starts again, /quit ends.")

    def finish(finished: Any) -> None:
        if wish.json:
            _print_json(_finished_as_dict(finished))
        else:
            remark = why_ended(finished)
            print(f"\n({remark})\n" if remark else "\n")

    talk(
        engine.session(),
        options,
        system=wish.system,
        show=(lambda text: None) if wish.json else _show,
        on_finished=finish,
        on_error=lambda error: print(f"smoldesk-cli: {error}", file=sys.stderr),
    )


def complete(wish: argparse.Namespace) -> None:
    """Continue a text, or answer a dialog."""
    from engine.events import Finished, Token

    dialog = None if wish.messages is None else read_messages(Path(wish.messages))
    options = options_from(wish)
    engine = _load(wish)
    session = engine.session()
    if dialog is not None:
        prompt_ids = session.prompt_ids(dialog)
    else:
        prompt_ids = engine.tokenizer.encode(wish.prompt)
    if not prompt_ids:
        raise OptionsError("The prompt is empty.", "Write at least one character.")
    events = (
        session.complete(prompt_ids, options) if dialog is None else session.reply(dialog, options)
    )
    for event in events:
        if isinstance(event, Token) and not wish.json:
            _show(event.text)
        elif isinstance(event, Finished):
            finished = event
    if wish.json:
        _print_json({"prompt_ids": prompt_ids} | _finished_as_dict(finished))
    else:
        print(finished.tail)
        if finished.error:
            print(finished.error, file=sys.stderr)


def logits(wish: argparse.Namespace) -> None:
    """The largest logits for the token after the given ids."""
    ids = read_ids(wish.ids)
    engine = _load(wish)
    check_ids(ids, engine.config.vocab_size)
    top = engine.session().next_logits(ids, top=min(wish.top, engine.config.vocab_size))
    texts = [engine.tokenizer.token_text(token_id) for token_id in top.ids]
    if wish.json:
        _print_json(
            {
                "ids": ids,
                "top_ids": top.ids,
                "top_logits": top.logits,
                "top_texts": texts,
                "log_sum_exp": top.log_sum_exp,
            }
        )
    else:
        for token_id, value, text in zip(top.ids, top.logits, texts, strict=True):
            print(f"{token_id:6d}  {value:9.4f}  {text!r}")


def tokenize(wish: argparse.Namespace) -> None:
    """A text's token ids."""
    from engine.files.library import find_model
    from engine.files.weights import read_config
    from engine.loading import load_text
    from engine.places import models_dir

    path = find_model(wish.model, models_dir()).path
    tokenizer, _ = load_text(path, read_config(path))
    text = sys.stdin.read() if wish.text is None else wish.text
    ids = tokenizer.encode(text)
    pieces = [tokenizer.token_text(token_id) for token_id in ids]
    if wish.json:
        _print_json({"ids": ids, "texts": pieces})
    else:
        for token_id, piece in zip(ids, pieces, strict=True):
            print(f"{token_id:6d}  {piece!r}")


def bench(wish: argparse.Namespace) -> None:
    """Measure speed, memory, loading and the precision's quality on this computer."""
    text = "" if wish.quality is None else read_text(Path(wish.quality))
    parts = bench_parts(wish)
    from engine.bench.report import measure
    from engine.bench.table import as_table

    report = measure(
        _load(wish),
        parts,
        rounds=wish.rounds,
        quality_text=text,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    if wish.json:
        _print_json(report)
    else:
        print(as_table(report))


def models(wish: argparse.Namespace) -> None:
    """List the installed models, or fetch the default one."""
    from engine.files.default_model import fetch_default_model
    from engine.files.library import installed_models
    from engine.places import models_dir

    if wish.fetch_default:
        fetch_default_model(models_dir(), say=lambda line: print(line, file=sys.stderr, flush=True))
    found = installed_models(models_dir())
    if wish.json:
        _print_json([dataclasses.asdict(model) | {"path": str(model.path)} for model in found])
    elif not found:
        print(f"No models in {models_dir()}. Get one: smoldesk-cli models --fetch-default")
    for model in [] if wish.json else found:
        print(f"{model.name}  {model.bytes / 1e6:,.0f} MB  {model.path}")


def _load(wish: argparse.Namespace) -> Any:
    from engine.loading import load

    return load(
        wish.model,
        device=wish.device,
        precision=wish.precision,
        threads=wish.threads,
        quiet=wish.quiet,
    )


def _finished_as_dict(finished: Any) -> dict[str, Any]:
    end = () if finished.end_id is None else (finished.end_id,)
    return {
        "ids": [*finished.token_ids, *end],
        "text": finished.text,
        "finish_reason": finished.reason,
        "seed": finished.seed,
        "statistics": dataclasses.asdict(finished.statistics),
    } | ({"error": finished.error} if finished.error else {})


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _print_json(value: Any) -> None:
    # ASCII only: readable by whatever encoding the reader expects.
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    sys.exit(main())
