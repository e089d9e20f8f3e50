"""The Reflectron: mirror descent along the pseudogradient, in every form."""
