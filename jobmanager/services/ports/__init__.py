"""What the use cases need from the outside, by subject. Implemented in `store`, `storage` and
`launchers`.
"""
