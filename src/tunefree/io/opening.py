"""A path, a compressed file, standard input or an open file, as chunks of bytes."""

import contextlib
import gzip
import hashlib
import io
import itertools
import os
import stat
import sys
import zlib

from tunefree.io.errors import DataError

CHUNK = 1 << 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SAMPLE = 4096


def name_of(source):
    """Say what to call a source in a message.

    Parameters
    ----------
    source : str, path-like, binary file or iterable of bytes
        As for `chunks`.

    Returns
    -------
    str
        The path, or ``<stdin>``.

    Examples
    --------
    >>> from tunefree.io.opening import name_of
    >>> name_of("-")
    '<stdin>'
    """
    if isinstance(source, (str, os.PathLike)):
        return "<stdin>" if os.fspath(source) == "-" else os.fspath(source)
    return str(getattr(source, "name", "<stream>"))


def chunks(source, size=None, start=0):
    """Yield the bytes of a source, decompressed, in pieces of at most `size`.

    Compression is recognised by the first bytes, not by the name. A regular file that ends before
    the size it had when it was opened is an error.

    Parameters
    ----------
    source : str, path-like, binary file or iterable of bytes
        A path, ``"-"`` for standard input, an open binary file, which is left open, or consecutive
        pieces of plain text, which are passed on as they are.
    size : int, optional
        The largest piece, in bytes; 1 MiB by default.
    start : int
        Leave out so many bytes of the (decompressed) content; a plain file is not read up to there.

    Yields
    ------
    bytes
        A piece of the content, never empty.

    Raises
    ------
    DataError
        The compressed data are truncated or damaged, or the file shrinks while it is read.
    OSError
        The file cannot be opened or read.

    Examples
    --------
    >>> import io
    >>> list(chunks(io.BytesIO(b"1 3:1 4:2"), size=5))
    [b'1 3:1', b' 4:2']
    """
    path, size = name_of(source), size or CHUNK
    if not isinstance(source, (str, os.PathLike)) and not hasattr(source, "read"):
        yield from _from_byte(source, start)
        return
    with contextlib.ExitStack() as stack:
        opened = None
        if not isinstance(source, (str, os.PathLike)):
            stream = source
        elif os.fspath(source) == "-":
            stream = sys.stdin.buffer
        else:
            stream = opened = stack.enter_context(open(source, "rb", buffering=0))
        take = getattr(stream, "read1", stream.read)  # what a pipe has, not what it may yet get
        head = piece = take(size)
        while piece and len(head) < len(_ZSTD):  # a pipe may give less than was asked for
            piece = take(size)
            head += piece
        before, regular = 0, stream is opened and stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
        if regular and start and not head.startswith((_GZIP, _ZSTD)):
            stream.seek(start)
            head, before, start = b"", start, 0
        pieces = itertools.chain([head], iter(lambda: take(size), b""))
        if regular:
            pieces = _whole_file(pieces, stream, before, path)
        if head.startswith(_GZIP):
            pieces = _gunzip(pieces, size, path)
        elif head.startswith(_ZSTD):
            pieces = _unzstd(pieces, path)
        yield from _from_byte(filter(None, pieces), start)


def _whole_file(pieces, stream, read, path):
    """Pass on what is read of a file, and complain if it ends before its size at the start."""
    size = os.fstat(stream.fileno()).st_size
    if read > size + 1:  # one: the newline that ends the last line in any case
        raise DataError(f"the file has {size} bytes, and reading is to go on at {read}", path)
    for piece in pieces:
        read += len(piece)
        yield piece
    if read < size:
        raise DataError(f"the file shrank while it was read: {read} of {size} bytes", path)


def fingerprint(path, stop=None):
    """A digest of 16 blocks of a file, evenly spread over its first bytes.

    Parameters
    ----------
    path : str
        A regular file.
    stop : int, optional
        Only so many bytes of the content count; of a compressed file the first 4096 do.

    Returns
    -------
    str
    """
    digest, size = hashlib.sha256(), os.path.getsize(path)
    with open(path, "rb") as file:
        packed = file.read(len(_ZSTD)).startswith((_GZIP, _ZSTD))
        stop = size if stop is None else min(_SAMPLE if packed else stop, size)
        digest.update(b"%d" % stop)
        for k in range(16):
            start = max(0, stop - _SAMPLE) * k // 15
            file.seek(start)
            digest.update(file.read(min(_SAMPLE, stop - start)))
    return digest.hexdigest()


def _from_byte(pieces, start):
    """Leave out the first `start` bytes."""
    for piece in pieces:
        if start < len(piece):
            yield piece[start:]
        start = max(0, start - len(piece))


class _Stream(io.RawIOBase):
    """An iterator of byte strings as a raw file."""

    def __init__(self, pieces):
        self._pieces, self._rest = pieces, memoryview(b"")

    def readable(self):
        return True

    def readinto(self, buffer):
        if not self._rest:
            self._rest = memoryview(next(self._pieces, b""))
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)


def _gunzip(pieces, size, path):
    stream = gzip.GzipFile(fileobj=io.BufferedReader(_Stream(iter(pieces)), 1 << 16))
    while True:
        try:
            piece = stream.read(size)
        except EOFError:
            raise DataError("the gzip data end too early: the file is truncated", path) from None
        except (gzip.BadGzipFile, zlib.error) as problem:
            raise DataError(f"the gzip data are damaged ({problem})", path) from None
        if not piece:
            return
        yield piece


def _unzstd(pieces, path):
    try:
        import zstandard
    except ImportError:
        raise DataError(
            "zstd data need the zstandard package: pip install 'tunefree[files]'", path
        ) from None
    unpacked = zstandard.ZstdDecompressor().decompressobj()
    try:
        for piece in pieces:
            while piece:
                if unpacked.eof:
                    unpacked = zstandard.ZstdDecompressor().decompressobj()
                yield unpacked.decompress(piece)
                piece = unpacked.unused_data
    except zstandard.ZstdError as problem:
        raise DataError(f"the zstd data are damaged ({problem})", path) from None
    if not unpacked.eof:
        raise DataError("the zstd data end too early: the file is truncated", path)


def whole_lines(pieces):
    r"""Regroup pieces of text so that each ends with a line, the last one included.

    A line longer than a piece is gathered until it ends, in time linear in its length. A UTF-8 byte
    order mark at the start is dropped.

    Parameters
    ----------
    pieces : iterable of bytes
        Consecutive pieces, cut anywhere.

    Yields
    ------
    bytes
        One or more whole lines; the last byte is always a newline.

    Examples
    --------
    >>> from tunefree.io.opening import whole_lines
    >>> list(whole_lines([b"a", b"b", b"c\nd"]))
    [b'abc\n', b'd\n']
    """
    held, first = [], True
    for piece in pieces:
        held.append(piece)
        if first and sum(map(len, held)) >= len(_BYTE_ORDER_MARK):
            held, first = [b"".join(held).removeprefix(_BYTE_ORDER_MARK)], False
        last = held[-1].rfind(b"\n") + 1
        if last and not first:
            piece = held.pop()
            yield b"".join([*held, piece[:last]])
            held = [piece[last:]] if last < len(piece) else []
    rest = b"".join(held)
    if rest:
        yield rest if rest.endswith(b"\n") else rest + b"\n"


def placed_lines(source, place=(0, 1)):
    r"""Yield whole lines, with the place of the first and the place after the last.

    Parameters
    ----------
    source : str, path-like, binary file or iterable of bytes
        As for `chunks`.
    place : tuple of int
        Where to begin: a byte of the content, and the number of the line there.

    Yields
    ------
    text : bytes
        One or more whole lines.
    line : int
        The number of the first.
    after : tuple of int
        The place after the last.

    Examples
    --------
    >>> from tunefree.io.opening import placed_lines
    >>> list(placed_lines([b"a\nb", b"\nc"]))
    [(b'a\n', 1, (2, 2)), (b'b\n', 2, (4, 3)), (b'c\n', 3, (6, 4))]
    """
    start, line = place
    pieces = chunks(source, start=start)
    first = next(pieces, b"")
    if start == 0 and first.startswith(_BYTE_ORDER_MARK):
        start += len(_BYTE_ORDER_MARK)
    for text in whole_lines(itertools.chain([first], pieces)):
        after = start + len(text), line + text.count(b"\n")
        yield text, line, after
        start, line = after
