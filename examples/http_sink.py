"""An HTTP sink: one request for each record, retries while the server is busy, dead letters for what it refuses."""

import httpx

from headrace.plugins import RecordsFailed, RecordSink, RetriableError, Setting


class HttpRequests(RecordSink):
    """Sends each value by `PUT url/<key>`, so that a record that comes again changes nothing."""

    settings = (
        Setting("url", doc="Address under which values are put."),
        Setting("token", "", secret=True, doc="Bearer token; empty: none."),
    )
    retriable = (OSError, httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError)

    def open(self):
        """Connect once for the task."""
        token = self.config["token"]
        self.client = httpx.Client(timeout=10, headers={"Authorization": f"Bearer {token}"} if token else {})

    def put(self, records):
        """Send them in order; those that the server refuses for themselves are bad records."""
        refused = {}
        for index, record in enumerate(records):
            url = f"{self.config['url']}/{record.key}"
            answer = self.client.delete(url) if record.value is None else self.client.put(url, json=record.value)
            if answer.status_code == 429 or answer.status_code >= 500:
                raise RetriableError(f"{url} answers {answer.status_code}")
            if answer.status_code in (400, 413, 422):
                refused[index] = f"{url} answers {answer.status_code}: {answer.text[:200]}"
            elif not (record.value is None and answer.status_code == 404):
                answer.raise_for_status()
        if refused:
            raise RecordsFailed(refused)

    def close(self):
        """Close the connection."""
        self.client.close()
