"""Small controls that several views are made of."""
