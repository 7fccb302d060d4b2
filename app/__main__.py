"""The command line of the window."""

import argparse
import multiprocessing
import os
import signal
import sys

from app.display import display_problem, missing_library_sentence


def main(arguments: list[str] | None = None) -> int:
    """Run the program; returns its exit code: 0, or 2 if it could not begin."""
    multiprocessing.freeze_support()  # first: in a frozen program, helpers begin here too
    # Until the window listens for them, signals end the program at once and without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    chosen = _parser().parse_args(arguments)
    if chosen.version:
        from importlib.metadata import version

        print(f"smoldesk {version('smoldesk')}")
        return 0
    if chosen.offscreen:
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
    problem = display_problem()
    if problem is not None:
        return _cannot_begin(problem)
    try:
        return _run(chosen)
    except ImportError as error:
        if "cannot open shared object file" not in str(error):
            raise
        return _cannot_begin(missing_library_sentence(str(error)))


def _run(chosen: argparse.Namespace) -> int:
    from app import bootstrap, failures
    from app.program import Start
    from engine.places import config_dir, data_dir, log_dir

    start = Start(
        data_dir=data_dir(),
        config_dir=config_dir(),
        log_dir=log_dir(),
        model=chosen.model,
        device=chosen.device,
        precision=chosen.precision,
        theme=chosen.theme,
        single=not chosen.self_test,
    )
    failures.give_missing_streams_a_file(start.log_dir)
    if chosen.self_test:
        from app.self_test import self_test

        return self_test(start, as_json=chosen.json)
    return bootstrap.run(start)


def _cannot_begin(sentence: str) -> int:
    if sys.stderr is not None:
        print(sentence, file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="smoldesk", description="A private desktop chat with SmolLM2 on your own computer."
    )
    parser.add_argument("--model", help="an installed model's name, or a model file or folder")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"))
    parser.add_argument("--precision", choices=("auto", "q4", "int8", "bf16", "fp16", "fp32"))
    parser.add_argument("--theme", choices=("light", "dark", "system"))
    parser.add_argument("--offscreen", action="store_true", help="run without a screen")
    parser.add_argument(
        "--self-test", action="store_true", help="ask one question in the real window, then quit"
    )
    parser.add_argument("--json", action="store_true", help="with --self-test: print JSON")
    parser.add_argument("--version", action="store_true", help="print the version")
    return parser


if __name__ == "__main__":
    sys.exit(main())
