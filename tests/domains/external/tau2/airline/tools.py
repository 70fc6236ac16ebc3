"""Tools as inspect-evals writes them; the decorator is never called."""

# ruff: noqa: F821


@tool
def get_reservation_details():
    async def execute(reservation_id: str) -> str:
        """Get a reservation.

        Args:
            reservation_id: Such as 'ABC123'.

        Raises:
            ToolError: If there is none.
        """

    return execute


@tool
def cancel_reservation():
    async def execute(reservation_id: str) -> str:
        """Cancel a reservation."""

    return execute


def no_tool():
    """Something else."""
