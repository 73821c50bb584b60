"""An HTTP source with a cursor: pages of events, each with an id that grows."""

import httpx

from headrace.plugins import Record, RecordSource, RetriableError, Setting


class HttpEvents(RecordSource):
    """Reads `GET url?after=<id>&limit=<page>`, which answers with a JSON list of events in the order of their `id`."""

    settings = (
        Setting("url", doc="Address of the events."),
        Setting("topic", doc="Topic that each event becomes a record of."),
        Setting("page", 500, doc="Events asked for at once."),
    )
    retriable = (OSError, httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError)

    def open(self):
        """Connect once for the task."""
        self.client = httpx.Client(timeout=10)

    def poll(self, after):
        """Yield the next page; it is called again at once as long as offsets go on."""
        wanted = {"after": (after or {"id": 0})["id"], "limit": self.config["page"]}
        answer = self.client.get(self.config["url"], params=wanted)
        if answer.status_code == 429 or answer.status_code >= 500:
            raise RetriableError(f"{self.config['url']} answers {answer.status_code}")
        for event in answer.raise_for_status().json():
            yield Record(event, key=str(event["id"]), offset={"id": event["id"]})

    def close(self):
        """Close the connection."""
        self.client.close()
