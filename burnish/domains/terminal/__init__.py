"""Terminal agents: many steps in a real shell, judged by what they leave."""
