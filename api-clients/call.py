"""Calls a controller with the Python client that OpenAPI Generator makes of its document: `call.py URL KEY`."""

import json
import sys
import time

from swath_client import ApiClient, Configuration, JobsApi, NewItem, NewJob, ResultsApi, ServiceApi
from swath_client.exceptions import NotFoundException

ROWS = [{"item_id": "first", "input": {"test_param": "hello"}}, {"item_id": "second", "input": {"test_param": "world"}}]
MOST_SECONDS = 120


def until_completed(jobs, job_id):
    """The counts of a job once it is completed."""
    until = time.monotonic() + MOST_SECONDS
    while time.monotonic() < until:
        status = jobs.show_status_jobs_job_id_status_get(job_id).data
        if status.status == "completed":
            return status.counts
        time.sleep(0.1)
    sys.exit(f"job {job_id} did not end within {MOST_SECONDS} s")


def check(what, found, expected):
    """Ends with a message unless they are the same."""
    if found != expected:
        sys.exit(f"{what}: {found!r}, not {expected!r}")


def main(url, key):
    """Orders, loads, follows and downloads."""
    configuration = Configuration(host=url, api_key={"ServiceKey": key})
    with ApiClient(configuration) as client:
        jobs, results = JobsApi(client), ResultsApi(client)
        check("ready", ServiceApi(client).readiness_readiness_get().data.ready, True)
        order = NewJob(job_id="python-items", scraper_id="example-http", items=[NewItem.from_dict(row) for row in ROWS])
        check("ordered", jobs.create_job_jobs_post(order).data.job_id, "python-items")
        check("done", until_completed(jobs, "python-items").success, 2)
        jobs.create_job_jobs_post(NewJob(job_id="python-loaded", scraper_id="example-http"))
        body = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
        loaded = jobs.load_items_jobs_job_id_items_post("python-loaded", body).data
        check("added", loaded.added, 2)
        jobs.start_job_jobs_job_id_start_post("python-loaded")
        check("loaded and done", until_completed(jobs, "python-loaded").success, 2)
        stored = results.download_jobs_job_id_items_item_id_download_get("python-loaded", "second")
        check("downloaded", json.loads(bytes(stored))["echo"], {"test_param": "world"})
        exported = results.export_jobs_job_id_export_get("python-loaded", "csv")
        check("exported", [name in bytes(exported) for name in (b"first", b"second")], [True, True])
        summary = results.results_jobs_job_id_results_get("python-loaded").data
        check("results", summary.to_dict()["counts"]["success"], 2)
        try:
            jobs.show_job_jobs_job_id_get("nobody")
        except NotFoundException as error:
            check("unknown", json.loads(error.body)["error"]["code"], "job_not_found")
        else:
            sys.exit("a job that is not there was found")


if __name__ == "__main__":
    main(*sys.argv[1:])
