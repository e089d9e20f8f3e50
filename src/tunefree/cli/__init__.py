"""The command line: its commands. Each is carried out in a file of its own.

Heavy imports wait until a command runs, so that help is instant.

On an error nothing is written, except a checkpoint if one was requested, and the predictions for
rows of a pipe so far.
"""

import csv
import gc
import inspect
from importlib import import_module
from typing import Annotated

import typer
from typer.core import TyperCommand, TyperGroup

from tunefree.cli import options
from tunefree.cli.console import (
    BAD_DATA,
    BAD_MODEL,
    INTERRUPTED,
    USAGE,
    check_found,
    check_writable,
    outcomes,
    stop,
)
from tunefree.core.late import import_late

# Printed below the help of every command.
_EXIT_CODES = (
    "Exit codes: 0 done; 1 other failures, such as a full disk; 2 wrong usage; 3 bad data, with "
    "file:line:column; 4 bad model or checkpoint; 5 drift; 130 interrupted."
)
# Options that take several columns, with commas between them.
_LISTS = ("drop", "id", "categorical")
# Commands of a second or two, whose imports wait for their first use.
_SHORT = ("predict", "inspect", "look")
# Options that name a file to write.
_WRITTEN = ("output", "html", "page", "checkpoint")


def _without_types(params):
    """Parameters; the help screen names no type of those without a value."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class _Command(TyperCommand):
    def get_params(self, ctx):
        return _without_types(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx):
        return _without_types(super().get_params(ctx))


app = typer.Typer(
    cls=_Group,
    help="Accurate predictions from tables, text and streams, with nothing to tune.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
):
    if version:
        from tunefree._version import __version__

        typer.echo(f"tunefree {__version__}")
        raise typer.Exit()


def _command(name, takes, module, **reads):
    """Add a command: ``run_NAME`` of a module, which takes one value of the class `takes`.

    `reads` names the files that must exist, with the exit code if one does not.
    """

    def command(**given):
        with outcomes():
            if given.get("resume") and given["checkpoint"] is None:
                stop("--resume needs --checkpoint FILE", USAGE)
            check_writable(*(given.get(option) for option in _WRITTEN))
            for option, code in reads.items():
                check_found(given[option], code)
            if name in _SHORT:
                import_late()
            run = getattr(import_module(f"tunefree.cli.{module}"), f"run_{name}")
            if not gc.isenabled():  # `main` has disabled it: imports would be scanned many times
                gc.freeze()
                gc.enable()
            for option in _LISTS:
                if given.get(option):  # a name with a comma is written in quotes
                    given[option] = [name for row in csv.reader(given[option]) for name in row]
            run(takes(**given))

    vars(command)["__signature__"] = inspect.signature(takes)  # what typer makes the options of
    paragraphs = inspect.cleandoc(takes.__doc__).split("\n\n")
    help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    app.command(name, cls=_Command, help=help, epilog=_EXIT_CODES)(command)


_command("look", options.LookOptions, "look", data=BAD_DATA)
_command("train", options.TrainOptions, "train", data=BAD_DATA)
_command("predict", options.PredictOptions, "apply", model=BAD_MODEL, data=BAD_DATA)
_command("eval", options.EvalOptions, "evaluate", model=BAD_MODEL, data=BAD_DATA)
_command("drift", options.DriftOptions, "drift", model=BAD_MODEL, data=BAD_DATA)
_command("compare", options.CompareOptions, "compare", old=BAD_MODEL, new=BAD_MODEL, data=BAD_DATA)
_command("report", options.ReportOptions, "page", model=BAD_MODEL, data=BAD_DATA)
_command("export", options.ExportOptions, "export", model=BAD_MODEL)
_command("inspect", options.InspectOptions, "report", model=BAD_MODEL)
_command("stream", options.StreamOptions, "stream", data=BAD_DATA)
_command("demo", options.DemoOptions, "demo")


def main():
    """Run the command line."""
    gc.set_threshold(50_000)
    gc.disable()
    try:
        app()
    except KeyboardInterrupt:  # before or after a command's own handling
        raise SystemExit(INTERRUPTED) from None
