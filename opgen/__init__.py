"""opgen: fused GPU operators from small specs, as code that a team reviews, tests and checks in."""
