"""Content on its way in and out: bundles, Google's tables, and what is given by hand."""
