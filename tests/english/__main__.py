"""`python -m tests.english` prints words by page, long sentences and findings; `--long` prints the sentences."""

import sys
from collections import Counter
from collections.abc import Iterable
from itertools import chain

from tests.english import exceptions
from tests.english.rules import findings
from tests.english.sentences import LONG, Sentence, sentences
from tests.english.texts import Text, name_of, notebook_pages, of_docstrings, of_pages, pages, whole, words


def main(arguments: list[str]) -> None:
    """Print the three measures."""
    print("Words by page:\n")
    for page in sorted([*pages(), *notebook_pages()], key=words, reverse=True):
        print(f"{words(page):7,}  {name_of(page)}")
    print(f"\nSentences of more than {LONG} words:\n")
    _print_long(chain(of_pages(), of_docstrings()), with_text="--long" in arguments)
    print("\nFindings without an exception:\n")
    for finding in exceptions.left(finding for text in whole() for finding in findings(text)):
        print(finding)


def _print_long(texts: Iterable[Text], *, with_text: bool) -> None:
    """Print how many sentences are long: of each kind, of each file, and with their text if wanted."""
    number: Counter[str] = Counter()
    found: list[tuple[Text, Sentence]] = []
    for text in texts:
        for sentence in sentences(text):
            number[text.kind] += 1
            if sentence.words > LONG:
                found.append((text, sentence))
    by_kind = Counter(text.kind for text, _ in found)
    for kind, count in number.items():
        print(f"{by_kind[kind]:7,}  of {count:,} in {kind}s, {by_kind[kind] / count:.2%}")
    print()
    for file, count in Counter(text.file for text, _ in found).most_common():
        print(f"{count:7,}  {file}")
    if with_text:
        for text, sentence in found:
            print(f"\n{text.file}:{sentence.line}: {sentence.words} words\n    {sentence.text}")


if __name__ == "__main__":
    main(sys.argv[1:])
