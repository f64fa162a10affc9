"""`python -m jobmanager` is `headgate`."""

from jobmanager.command import main

if __name__ == "__main__":
    main()
