"""Layers of a place that hold its dependencies: built once, cached by content.

`requirements.build` makes one of pinned wheels, `building.build` a chain of them from a subset of a Dockerfile;
both keep them in `cache`. docs/dependency_layers.md shows how they are used.
"""
