"""`python -m dpinfer` is the command line."""

from dpinfer.cli import main

if __name__ == "__main__":
    main()
