"""What the hooks of ``torchwheel.extension.backend`` do."""
