"""Whether the accesses of a block are ordered: a mistake that a card survives is a finding.

    shadows     the last accesses of the bytes of a memory, against which each access is checked
    order       what the threads of a block know of each other's accesses
    histories   what blocks did with shared memory, so that it is checked once
    rules       the rules that a kernel can break

Imports numbers and types, and nothing else of cta: a block has an order and a history, and its arrays have shadows.
"""
