"""Orchestration: export, check, record, demo; processes and progress."""
