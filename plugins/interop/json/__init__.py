"""Values as JSON text, as JsonConverter writes them: `writing.py` by expressions, `values.py` for defaults."""
