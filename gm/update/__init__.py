"""The updater: manifest polling, download, verification, staging."""
