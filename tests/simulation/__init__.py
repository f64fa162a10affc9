"""Deterministic simulation of JobManagers and runners: docs/simulation.md explains it."""
