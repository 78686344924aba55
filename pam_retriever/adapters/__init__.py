"""What the stores of ``langchain_pam`` and ``llama_index_pam`` share."""
