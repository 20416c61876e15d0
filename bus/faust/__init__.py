"""Everything that knows Faust's insides: the app, its driver, its runner. May import: ``bus.kafka``."""
