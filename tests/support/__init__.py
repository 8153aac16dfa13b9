"""What several tests share: builders of small models, brute force, random cases."""
