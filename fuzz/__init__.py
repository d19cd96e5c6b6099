"""Wrong uses and damaged files by the thousand, each of which must be survived.

``python -m fuzz`` (or ``make fuzz``) tries them all and writes ``results/fuzz.json``; ``python -m fuzz --only runs:17``
repeats one and shows what it printed. A case is made of the seed, its kind and its number, and of nothing else.

    lines, configs, tables             what a user types, writes and brings: right, or refused in one line
    runs, comparisons, models          what was written, then damaged: the same numbers, or the damage is said
"""
