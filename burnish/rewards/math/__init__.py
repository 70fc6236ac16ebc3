"""Answers in mathematics, compared exactly: `judging` is the way in, `second_opinion` asks another package."""
