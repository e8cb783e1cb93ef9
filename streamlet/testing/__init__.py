"""Running an app in a test, without a broker. `TestDriver` is the public part, also as `streamlet.TestDriver`."""

from streamlet.testing.driver import TestDriver

__all__ = ["TestDriver"]
