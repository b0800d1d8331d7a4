"""What keeps tools that go out to the network from where they have no business: rules, and a client that holds them."""
