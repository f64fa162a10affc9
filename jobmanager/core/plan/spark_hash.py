"""Spark's `hash` of one INT: Murmur3 (x86, 32 bits) with seed 42, as a signed number."""

_SEED = 42
_MASK = 0xFFFFFFFF
_SIGN = 0x80000000


def hash_int(value: int) -> int:
    """Return Spark's `hash(value)` for an INT column."""
    mixed = _multiply(value & _MASK, 0xCC9E2D51)
    mixed = _multiply(_rotate(mixed, 15), 0x1B873593)
    state = (_multiply(_rotate(_SEED ^ mixed, 13), 5) + 0xE6546B64) & _MASK
    state ^= 4  # bytes hashed
    state = _multiply(state ^ (state >> 16), 0x85EBCA6B)
    state = _multiply(state ^ (state >> 13), 0xC2B2AE35)
    state ^= state >> 16
    return state - (1 << 32) if state & _SIGN else state


def _multiply(left: int, right: int) -> int:
    return (left * right) & _MASK


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK
