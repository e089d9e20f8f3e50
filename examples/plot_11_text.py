"""
Text classification
===================

Which data set is a sentence about? The sentences are from scikit-learn's descriptions of its data
sets. Words and pairs of words become some thousand sparse columns (`TfidfVectorizer`).
`PiSTOLClassifier` needs no penalty and no step size for them.
"""

import re

import matplotlib.pyplot as plt
import numpy as np
from sklearn import datasets
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from tunefree import PiSTOLClassifier
from tunefree.plots import WeightsDisplay

names = ("breast_cancer", "diabetes", "digits", "iris", "wine")
pages = {name: getattr(datasets, f"load_{name}")().DESCR for name in names}
found = [(s, name) for name in names for s in re.split(r"[.:]\s|\n\s*\n", pages[name])]
text, about = zip(*((s, name) for s, name in found if len(s.split()) > 3), strict=True)
text, new, about, about_new = train_test_split(text, about, random_state=0, stratify=about)
words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
model = make_pipeline(words, PiSTOLClassifier(random_state=0)).fit(text, about)
most = max(np.mean(np.array(about_new) == name) for name in set(about_new))
print(f"{len(text)} sentences, {len(words.vocabulary_)} columns")
print(f"accuracy on {len(new)} new sentences {model.score(new, about_new):.2f}")
print(f"always naming the most frequent: {most:.2f}")
print(model.predict(["The patients were measured at baseline, and one year after it."]))

# %%
# The words with the largest positive and negative weights for one of the data sets.

weights, names = model[-1].coef_[0], words.get_feature_names_out()
WeightsDisplay(weights, names=names, label=f"weight for {model.classes_[0]}").plot(most=12)
plt.show()
