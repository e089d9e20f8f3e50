"""Sentences to numbers: pieces of their words, and the directions in which these vary together."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

# Hashed columns of pieces of words, and the largest number of their directions.
_PIECES, _DIRECTIONS = 1 << 13, 30
# Texts that are cut into pieces at a time.
_TEXTS = 1000


class Phrases(NamedTuple):
    """Sentences to numbers: the main directions of their TF-IDF weights.

    Words are cut into pieces of 3 and 4 characters, hashed into columns, and counted as
    1 + log(count) times log((1 + n) / (1 + rows with the piece)) + 1; rows have length 1. Singular
    vectors then combine pieces that occur together (latent semantic analysis).

    Attributes
    ----------
    idf : ndarray of shape (n_hashed,)
    basis : ndarray of shape (n_pieces, n_directions)
        In half precision: the weights of a direction differ by less than a thousandth.
    pieces : ndarray of shape (n_pieces,)
        The hashed columns that `fit` saw; the others have no direction.
    """

    idf: np.ndarray
    basis: np.ndarray
    pieces: np.ndarray

    @classmethod
    def of(cls, texts, weights):
        """Learn from sentences; weights are repetitions."""
        counts = sparse.vstack([_pieces(texts[b]) for b in _blocks(texts)], format="csr")
        of_entries = np.repeat(weights, np.diff(counts.indptr))
        frequency = np.bincount(counts.indices, of_entries, _PIECES)
        idf = np.log((1.0 + weights.sum()) / (1.0 + frequency)) + 1.0
        root = np.sqrt(weights)
        rows: Any = sparse.vstack(
            [sparse.diags_array(root[b]) @ _tf_idf(counts[b], idf) for b in _blocks(texts)],
            format="csr",
        )
        del counts, of_entries
        k = min(_DIRECTIONS, max(1, len(set(texts.tolist())) // 8))
        gram: Any = LinearOperator(
            (_PIECES, _PIECES), matvec=lambda v: rows.T @ (rows @ v), dtype=np.float64
        )
        _, basis = eigsh(gram, k=k, v0=np.ones(_PIECES))
        basis = basis[:, ::-1]
        ends = basis[np.abs(basis).argmax(axis=0), np.arange(k)]
        seen = np.flatnonzero(frequency > 0.0)
        basis = (basis * np.sign(ends))[seen].astype(np.float16)
        return cls(idf.astype(np.float32), basis, seen.astype(np.int16))

    def numbers(self, texts, absent):
        """Shape (n, n_directions); zeros where a text is absent."""
        texts, idf = np.where(absent, "", texts), self.idf.astype(np.float64)
        basis = np.zeros((_PIECES, self.basis.shape[1]))
        basis[self.pieces] = self.basis
        found = [_tf_idf(_pieces(texts[b]), idf) @ basis for b in _blocks(texts)]
        return np.concatenate(found) if found else np.zeros((0, basis.shape[1]))


def _blocks(texts):
    """Parts of the rows whose pieces, some hundred a row, take little memory."""
    return [slice(i, i + _TEXTS) for i in range(0, len(texts), _TEXTS)]


def _pieces(texts):
    """Counts of pieces of words, hashed."""
    from sklearn.feature_extraction.text import HashingVectorizer

    hashed = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 4), n_features=_PIECES, norm=None, alternate_sign=False
    )
    return sparse.csr_array(hashed.transform(texts.tolist()))


def _tf_idf(counts, idf):
    """The weights of pieces, in rows of length 1."""
    counts.data = 1.0 + np.log(counts.data)
    rows = counts @ sparse.diags_array(idf)
    length = np.sqrt(rows.multiply(rows).sum(axis=1))
    return sparse.diags_array(1.0 / np.maximum(np.ravel(length), 1e-300)) @ rows
