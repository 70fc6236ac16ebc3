"""What a training step does on rows, in C++ for processors: one pass where torch makes many."""
