"""Plants faults in generated code, and asks whether the generated tests see them."""
