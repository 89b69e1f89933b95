"""Tables written to order: the bytes of both formats, right or wrong on purpose."""
