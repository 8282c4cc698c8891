"""Commands of research: problems and designs, methods compared, published figures again."""
