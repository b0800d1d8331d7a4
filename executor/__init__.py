"""What does happen: events, the mind without hands, the hands, the journal, the engine."""
