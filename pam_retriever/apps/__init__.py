"""Programs that use the public class only."""
