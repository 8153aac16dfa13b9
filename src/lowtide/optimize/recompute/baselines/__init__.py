"""What papers and frameworks do about running ops again, each a short implementation of its own."""
