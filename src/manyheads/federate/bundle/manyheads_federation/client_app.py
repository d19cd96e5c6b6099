"""At a site: hand each message to the installed manyheads."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def answer(message: Message, context: Context) -> Message:
    """Answer a message of the coordinator."""
    from manyheads.federate.flower_site import answer

    return answer(message, context)
