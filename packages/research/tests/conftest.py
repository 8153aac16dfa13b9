"""What every test relies on."""

import support.settings  # noqa: F401
