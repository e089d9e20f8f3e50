"""The container of a model file: a head, a JSON header, arrays, a checksum.

All integers are little-endian::

    0    8 bytes   the letters "tunefree"
    8    uint32    the format's version, 1
    12   uint32    zero
    16   uint64    H, the length of the header
    24   uint64    the length of the whole file
    32   H bytes   the header, JSON in UTF-8
    ...            arrays, each padded with zeros to a multiple of 64 bytes
    -32  32 bytes  SHA-256 of everything before

The header holds the versions of the libraries, the estimator as nested values (see `values`) and
the table of the arrays: type, shape, order and first byte of each, counted from the first array.
Every length is checked against the file's before anything is allocated, and the checksum before
anything is understood. The same model always gives the same bytes.
"""

import contextlib
import hashlib
import json
import os
import struct
from typing import NamedTuple

import numpy as np
import sklearn
from sklearn.utils.validation import check_is_fitted

from tunefree._version import __version__
from tunefree.io.atomic import write_atomically
from tunefree.io.values import (
    Decoder,
    Encoder,
    ModelError,
    aligned,
    name_type,
    public_estimators,
)

MAGIC, FORMAT = b"tunefree", 1
_HEAD = struct.Struct("<8sIIQQ")
_DIGEST = 32
_VERSIONS = {"tunefree": __version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__}


# A learner of more bytes than this is kept only where it is asked for, or is in use.
_LARGE = 64 << 20


def save_model(estimator, path, *, learner="auto", notes=None):
    """Write a fitted estimator to a file, whole or not at all.

    Parameters
    ----------
    estimator : estimator of `tunefree`
        The model.
    path : str or path-like
        Where to write. An existing file is replaced only once the new one is complete.
    learner : bool or 'auto', default='auto'
        Whether the file keeps what `partial_fit` and `warm_start` go on from, so that they do so
        as if the model had never been saved. 'auto' leaves it out after `fit` if it takes more
        than 64 MiB; without it a file holds the predictor only.
    notes : dict or None
        More to keep in the header, of plain values: `describe_model` shows it.

    Raises
    ------
    NotFittedError
        There is nothing to predict with yet.
    ModelError
        An attribute cannot be stored (a function, say); the message names it.
    OSError
        The file cannot be written. An existing file stays as it was.

    Examples
    --------
    >>> import tempfile, os, numpy as np, tunefree
    >>> model = tunefree.PiSTOLRegressor(random_state=0).fit(np.eye(4), [1.0, 2.0, 3.0, 4.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model")
    ...     tunefree.save_model(model, path)
    ...     again = tunefree.load_model(path)
    >>> bool(np.all(again.predict(np.eye(4)) == model.predict(np.eye(4))))
    True
    """
    name = type(estimator).__name__
    if public_estimators().get(name) is not type(estimator):
        raise ModelError(f"only estimators of tunefree can be saved, not {name_type(estimator)}")
    check_is_fitted(estimator)
    facts = {
        "n_features": getattr(estimator, "n_features_in_", None),
        "notes": notes or {},
        "model": estimator,
    }
    encoder, header = _encoded(name, facts, learner=bool(learner))
    if learner == "auto" and encoder.length > _LARGE and not _goes_on(estimator):
        encoder, header = _encoded(name, facts, learner=False)
    header["learner"] = bool(header["model"]["estimator"][3])
    _write(path, header, encoder)


def save_values(values, path, *, kind):
    """Write values to a file of the same container: the state of a run, say.

    Parameters
    ----------
    values : object
        Whatever `tunefree.io.values` can encode: numbers, text, arrays, CSR, containers,
        this package's parts, streams and estimators.
    path : str or path-like
        As in `save_model`.
    kind : str
        What the values are, which `load_values` checks.

    Raises
    ------
    ModelError
        A value cannot be stored; the message names it.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     save_values({"epoch": 3, "sum": np.ones(2)}, file.name, kind="checkpoint")
    ...     load_values(file.name, kind="checkpoint")
    {'epoch': 3, 'sum': array([1., 1.])}
    """
    encoder, header = _encoded(kind, {"values": values}, learner=True)
    _write(path, header, encoder)


def load_values(path, *, kind):
    """Read back what `save_values` wrote.

    Parameters
    ----------
    path : str or path-like
        The file.
    kind : str
        What it must hold.

    Returns
    -------
    object
        The values.

    Raises
    ------
    ModelError
        A `ValueError`: the file is truncated, damaged, or holds something else.
    """
    file = _read(path)
    with _damage(path):
        if file.header["class"] != kind:
            raise ValueError(f"it holds a {str(file.header['class'])[:80]!r}, not a {kind!r}")
        return file.decoder.decode(file.header["values"])


def _goes_on(estimator):
    """Whether an estimator is in the middle of a stream or wants to go on from its last fit."""
    streams = vars(estimator).get("_stream") is not None
    return streams or bool(getattr(estimator, "warm_start", False))


def _encoded(name, facts, learner):
    """Encode what a file holds: the encoder, and the header without the arrays' table."""
    encoder = Encoder(learner=learner)
    try:
        items = {
            key: encoder.encode(value, name if key in ("model", "values") else key)
            for key, value in facts.items()
        }
    except RecursionError:
        raise ModelError(f"{name} cannot be saved: its values are nested too deeply") from None
    return encoder, {**_VERSIONS, "class": name, **items}


def _write(path, header, encoder):
    text = json.dumps(
        header | {"arrays": encoder.table}, allow_nan=False, separators=(",", ":")
    ).encode()
    size = aligned(_HEAD.size + len(text)) + encoder.length + _DIGEST
    write_atomically(path, _pieces(text, encoder.arrays, size))


def _pieces(text, arrays, size):
    """Yield a model file piece by piece, the checksum last."""
    digest = hashlib.sha256()
    head = np.frombuffer(_HEAD.pack(MAGIC, FORMAT, 0, len(text), size) + text, np.uint8)
    for piece in [head, *arrays]:
        content = piece.reshape(-1, order="A").view(np.uint8).data
        for part in (content, bytes(aligned(piece.nbytes) - piece.nbytes)):
            digest.update(part)
            yield part
    yield digest.digest()


def load_model(path):
    """Read an estimator back from a file.

    Nothing in the file is executed, and it is used only if its checksum is right.

    Parameters
    ----------
    path : str or path-like
        A file written by `save_model`.

    Returns
    -------
    estimator
        The model: its predictions have the same bits as before.

    Raises
    ------
    ModelError
        A `ValueError`: the file is truncated, damaged, of another format or not a model.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import tempfile, tunefree
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     model = tunefree.PiSTOLClassifier(random_state=7).fit([[-1.0], [1.0]], [0, 1])
    ...     tunefree.save_model(model, file.name)
    ...     print(tunefree.load_model(file.name))
    PiSTOLClassifier(random_state=7)
    """
    file = _read(path)
    with _damage(path):
        return file.decoder.decode({"estimator": file.header["model"]["estimator"]})


def describe_model(path):
    """Tell what a model file holds, without building the model.

    Parameters
    ----------
    path : str or path-like
        A file written by `save_model`.

    Returns
    -------
    dict
        ``class``, ``versions``, ``format``, ``n_features``, ``learner`` (whether the file keeps
        it), ``notes``, ``bytes``, ``sha256``.

    Raises
    ------
    ModelError
        As for `load_model`.
    """
    file = _read(path)
    with _damage(path):
        return {
            "class": str(file.header["class"]),
            "n_features": file.decoder.decode(file.header["n_features"]),
            "learner": file.header["learner"] is True,
            "notes": dict(file.decoder.decode(file.header["notes"])),
            "versions": {name: str(file.header[name]) for name in _VERSIONS},
            "format": FORMAT,
            "bytes": file.size,
            "sha256": file.digest.hex(),
        }


class _File(NamedTuple):
    """A model file whose checksum is right."""

    header: dict
    decoder: Decoder
    size: int
    digest: bytes


def _read(path):
    """Read a model file and check its head and its checksum."""
    with open(path, "rb") as stream:
        head = stream.read(_HEAD.size)
        if not head.startswith(MAGIC):
            raise ModelError(f"{path} is not a tunefree model")
        if len(head) < _HEAD.size:
            raise ModelError(f"{path} is truncated: the file ends too early")
        _, version, _, header_length, size = _HEAD.unpack(head)
        if version != FORMAT:
            raise ModelError(
                f"{path} is damaged or has another format: version {version}; "
                f"this tunefree {__version__} reads version {FORMAT}"
            )
        actual = os.fstat(stream.fileno()).st_size
        if size != actual:
            raise ModelError(f"{path} is truncated or damaged: {actual} bytes instead of {size}")
        stream.seek(0)
        content = stream.read()
    if size != len(content) or _HEAD.size + header_length + _DIGEST > size:
        raise ModelError(f"{path} is damaged: its lengths do not fit together")
    digest = content[-_DIGEST:]
    if hashlib.sha256(memoryview(content)[:-_DIGEST]).digest() != digest:
        raise ModelError(f"{path} is damaged: its checksum is wrong")
    with _damage(path):
        header = json.loads(content[_HEAD.size : _HEAD.size + header_length])
        start = aligned(_HEAD.size + header_length)
        data = memoryview(content)[start:-_DIGEST]
        return _File(header, Decoder(data, header["arrays"]), size, digest)


@contextlib.contextmanager
def _damage(path):
    """Turn whatever a hostile header provokes into one sentence."""
    try:
        yield
    except Decoder.FAULTS as fault:
        raise ModelError(f"{path} is not a sound model: {fault or type(fault).__name__}") from None
