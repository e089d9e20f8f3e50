"""Columns: what is known of them, and the linear changes under which a learner sees them."""
