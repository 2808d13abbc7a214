"""staleloc: does the KV-cache code of an LLM serving engine send every token to the slot it should?"""
