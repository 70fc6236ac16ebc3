"""The native decode path for Llama-like models on x86-64: one C++ call a step. See docs/native_engine.md."""
