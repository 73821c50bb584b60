"""Side by side with Apache Connect: one machine, one broker, one run (`make bench`)."""
