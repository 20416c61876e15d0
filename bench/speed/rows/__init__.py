"""What is measured: a module for each measurement, which adds its figures. May import all of ``bench``."""
