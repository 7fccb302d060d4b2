"""The network on a CPU as one compiled function: kernels, the weights as they read them, threads.

Only `engine.run` uses it. numba is imported by what needs it, after `compiled.py` has said where
compiled code is kept.
"""
