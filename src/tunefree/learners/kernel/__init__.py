"""Functions over support rows: one sweep for many learners, compression, landmarks."""
