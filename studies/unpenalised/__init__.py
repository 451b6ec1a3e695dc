"""Coverage of the unpenalised target, or its refusal."""
