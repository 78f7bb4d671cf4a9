"""The English of the project: its texts, their sentences, and what the checker finds in them.

    texts.py        pages, notebooks, docstrings, comments and messages, each with its place
    sentences.py    the prose of a text, and its sentences
    rules.py        words and forms that stop a reader
    exceptions.toml places where a form stays, with reasons

`python -m tests.english` prints words by page, long sentences and findings.
"""
