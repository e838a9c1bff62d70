"""The project's own benchmarks: `python -m tests.bench`.

They measure what the product adds on top of its model. The model is the scripted gateway
of `tests.fakes`, which answers at once; whatever time is left is the product's own.
"""
