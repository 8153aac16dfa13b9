"""The five papers, row by row: what each prints, beside what lowtide measures (`lowtide research reproduce`)."""
