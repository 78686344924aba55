"""Programs that use only the public class."""
