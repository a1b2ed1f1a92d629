"""A pretended Hugging Face Hub with its CDN, over TLS under the real host names, for browser tests."""
