r"""Likelihoods of several classes: one index an output, all linear in the parameters theta.

The indices of a row a (its columns, and 1 for the intercept) are s = a B with B = E theta. For
ordered classes B has the same coefficients in every output, less a threshold; for a softmax the
column of the first class is 0. With the slope r_i and the curvature H_i of -log p(y_i) in s_i,

.. math:: g_i = Z_i^\top r_i, \qquad A = \sum_i Z_i^\top H_i Z_i, \qquad
    L_i = H_i Z_i A^{-1} Z_i^\top, \qquad s_i = Z_i \theta,

are scores, curvature and leverages. HC3 has :math:`Z_i^\top (I - L_i)^{-1} r_i` for g_i: what one
step of Newton's changes if a row is dropped. HC2 has :math:`(I - L_i)^{-1/2} r_i` for r_i: if the
family is true, their covariance is near that of errors, H_i, as residuals have (I - L_i) H_i.

Source: McCullagh and Nelder 1989, chapter 5; Pregibon 1981 (the step); Bell and McCaffrey 2002 (the
root).
"""

import numpy as np

_MOST_STEPS, _MOST_HALVINGS, _CONVERGED, _LONGEST_STEP = 100, 40, 1e-10, 4.0


def parameters(family, k, m):
    """E, shape (k, m, p), for k columns, the last of which is that of the intercept, and m outputs.

    Examples
    --------
    >>> from tunefree.parts.families import MultinomialLogit
    >>> parameters(MultinomialLogit(), 1, 3) @ [5.0, 6.0]
    array([[0., 5., 6.]])
    """
    if not family.tied:
        E = np.zeros((k, m, (m - 1) * k))
        for c in range(1, m):
            E[:, c, (c - 1) * k : c * k] = np.eye(k)
        return E
    E = np.zeros((k, m, k - 1 + m))
    E[:-1, :, : k - 1] = np.eye(k - 1)[:, None]
    E[-1, :, k - 1 :] = -np.eye(m)
    return E


def deviances(family, s, y):
    """The deviance of every row."""
    return family.residuals(None, s, y)[1].sum(axis=1)


def scores(A, E, r):
    """The score of every row, shape (n, p), from slopes r in its indices, shape (n, m)."""
    if E.shape[1] == 1 and np.array_equal(E[:, 0], np.eye(len(E))):
        return A * r
    return (A[:, :, None] * r[:, None]).reshape(len(A), -1) @ E.reshape(-1, E.shape[2])


def curvature(A, E, H):
    """The curvature of the loss, shape (p, p), from those of the rows, shape (n, m, m)."""
    k, m, p = E.shape
    in_B = np.zeros((k, m, k, m))
    for a in range(m):
        for b in range(a + 1):
            in_B[:, a, :, b] = in_B[:, b, :, a] = A.T @ (H[:, a, b, None] * A)
    E = E.reshape(-1, p)
    return E.T @ in_B.reshape(k * m, k * m) @ E


def leverages(A, E, bread):
    """Z bread Z', shape (n, m, m), of every row: H times this are its leverages."""
    k, m, p = E.shape
    wide = E.reshape(-1, p)
    in_B = (wide @ bread @ wide.T).reshape(k, m, k, m)
    quadratic = np.empty((len(A), m, m))
    for a in range(m):
        for b in range(m):
            # A matrix product: einsum over both columns takes ten times as long.
            quadratic[:, a, b] = ((A @ in_B[:, a, :, b]) * A).sum(axis=1)
    return quadratic


def _rest(H, Q):
    """What a row's leverage lacks to 1, of one index."""
    return np.maximum(1.0 - (H * Q)[:, 0], 1e-8)


def without_own_row(H, Q, r):
    """Slopes r over I - H Q, row by row: those of HC3."""
    if r.shape[1] == 1:
        return r / _rest(H, Q)
    rest = (1.0 + 1e-12) * np.eye(r.shape[1]) - H @ Q
    return np.linalg.solve(rest, r[:, :, None])[:, :, 0]


def studentized(H, Q, r):
    """Slopes r over the root of I - H Q, row by row: those of HC2."""
    if r.shape[1] == 1:
        return r / np.sqrt(_rest(H, Q))
    sizes, U = np.linalg.eigh(H)
    root = (U * np.sqrt(np.maximum(sizes, 0.0))[:, None]) @ U.transpose(0, 2, 1)
    # (I - H Q)^(-1/2) = I + root f(root Q root) root Q, with f(s) = ((1 - s)^(-1/2) - 1) / s.
    shares, V = np.linalg.eigh(root @ Q @ root)
    rest = np.sqrt(np.maximum(1.0 - shares, 1e-8))
    f = 1.0 / (rest * (1.0 + rest))
    change = (V * f[:, None]) @ V.transpose(0, 2, 1) @ (root @ (Q @ r[:, :, None]))
    return r + (root @ change)[:, :, 0]


def most_likely(A, E, y, share, family, intercept, offset=0.0):
    """Parameters and indices of the largest likelihood, and whether they were found.

    Newton's steps, halved until the loss falls. The offset is a number a row, in all indices, or
    one for each of them.
    """
    offset = np.asarray(offset) if np.ndim(offset) == 2 else np.reshape(offset, (-1, 1))
    start = np.zeros(E.shape[:2])
    if intercept:
        constant = family.start(y, share) - np.mean(offset, axis=0)
        start[-1] = constant if family.tied else constant - constant[0]
    theta = np.linalg.pinv(E.reshape(-1, E.shape[2])) @ start.ravel()
    s = A @ (E @ theta) + offset
    loss, size = share @ deviances(family, s, y), np.inf
    for _ in range(_MOST_STEPS):
        r, H = family.residuals(None, s, y)[0], family.hessian(s, y)
        slope = np.einsum("km,kmp->p", A.T @ (share[:, None] * r), E)
        try:
            step = np.linalg.solve(curvature(A, E, share[:, None, None] * H), slope)
        except np.linalg.LinAlgError:
            return theta, s, False
        change = A @ (E @ step)
        size = float(np.abs(change).max(initial=0.0))
        if not np.isfinite(size):
            return theta, s, False
        part = min(1.0, _LONGEST_STEP / max(size, 1e-300))
        for _ in range(_MOST_HALVINGS):
            lower = share @ deviances(family, s - part * change, y)
            if lower <= loss * (1.0 + 1e-14):
                break
            part *= 0.5
        theta, loss = theta - part * step, lower
        s = A @ (E @ theta) + offset
        if size <= _CONVERGED * max(1.0, float(np.abs(s).max())):
            break
    return theta, s, size <= 1e-6 * max(1.0, float(np.abs(s).max()))
