"""Whether intervals hold the ordinary coefficient, on populations drawn for the purpose."""
