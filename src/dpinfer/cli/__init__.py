"""The command line: `dpinfer`, or `python -m dpinfer`."""

from dpinfer.cli.app import main

__all__ = ["main"]
