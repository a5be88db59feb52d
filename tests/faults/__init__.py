"""The fault-injection suite: a real cluster under load, broken on purpose, then audited.

``cluster`` starts it and keeps its roles running, ``load`` sends it work, ``injections`` break it,
``audit`` reads what became of every job, ``suite`` puts them together, ``__main__`` is the command.
"""
