"""``tunefree export``: a model for services that have only NumPy, or no Python."""

from tunefree.cli.apply import feature_names, is_stream, load, matched_by_us
from tunefree.cli.console import BAD_MODEL, FAILED, USAGE, failing, note, stop
from tunefree.files.model import ModelError


def run_export(options):
    """Carry out ``tunefree export``; `options` is an `ExportOptions`."""
    from tunefree.onnx import to_onnx, to_scorer

    estimator, notes = load(options.model)
    if is_stream(estimator) or notes.get("hashed") or notes.get("beside"):
        what = "a stream" if is_stream(estimator) else "a model of hashed columns"
        what = "a model with an exposure, offset or groups" if notes.get("beside") else what
        stop(f"{options.model} is {what}, which cannot be exported", USAGE)
    is_onnx = options.output.lower().endswith(".onnx")
    has_names = notes.get("feature_names") is not None or hasattr(estimator, "feature_names_in_")
    with failing(FAILED, options.output), matched_by_us():
        try:
            if is_onnx:
                to_onnx(estimator, options.output)
            else:
                names = feature_names(estimator, notes) if has_names else None
                to_scorer(estimator, options.output, names)
        except ModelError as problem:
            stop(str(problem), BAD_MODEL)
        except ImportError:
            stop("this needs the package onnx: pip install tunefree[onnx]", FAILED)
    use = "" if is_onnx else f": python -m tunefree.serve {options.output} ROWS"
    note(f"wrote {options.output}{use}")
