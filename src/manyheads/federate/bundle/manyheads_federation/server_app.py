"""At the server: let the installed manyheads conduct the study."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Conduct one job of a study."""
    from manyheads.federate.flower_server import conduct

    conduct(grid, context)
