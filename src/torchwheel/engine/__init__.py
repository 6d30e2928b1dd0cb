"""The engine: carries a plan out with the tree's own build backend."""
