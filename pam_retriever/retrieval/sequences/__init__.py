"""What came next: a trajectory as the question.

``steps`` reads the question, ``transitions`` says what came after its steps before, ``features`` makes evidence of
that, of content and of ``repeats``, ``fitting`` weighs it on held-out experience into a ``mixture``, and ``scorer``
answers.
"""
