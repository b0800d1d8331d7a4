"""Operations of an OpenAPI document as tools: read as a stranger's, called within the rules of the egress guard."""
