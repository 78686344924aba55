"""The shared code of the stores of ``langchain_pam`` and ``llama_index_pam``."""
