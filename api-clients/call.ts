// Calls a controller with the TypeScript client that OpenAPI Generator makes of its document: `node call.js URL KEY`.

import { Configuration, ExportJobsJobIdExportGetFormatEnum, JobsApi, ResponseError, ResultsApi, ServiceApi } from "./client";

declare const process: { argv: string[]; exit(code: number): never };

const ROWS = [
  { item_id: "first", input: { test_param: "hello" } },
  { item_id: "second", input: { test_param: "world" } },
];
const MOST_SECONDS = 120;

function check(what: string, found: unknown, expected: unknown): void {
  if (JSON.stringify(found) !== JSON.stringify(expected)) {
    throw new Error(`${what}: ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`);
  }
}

async function successesOnceCompleted(jobs: JobsApi, jobId: string): Promise<number> {
  const until = Date.now() + MOST_SECONDS * 1_000;
  while (Date.now() < until) {
    const status = (await jobs.showStatusJobsJobIdStatusGet({ jobId })).data;
    if (status.status === "completed") {
      return status.counts.success;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`job ${jobId} did not end within ${MOST_SECONDS} s`);
}

async function main(basePath: string, apiKey: string): Promise<void> {
  const configuration = new Configuration({ basePath, apiKey });
  const jobs = new JobsApi(configuration);
  const results = new ResultsApi(configuration);
  check("ready", (await new ServiceApi(configuration).readinessReadinessGet()).data.ready, true);
  const items = ROWS.map((row) => ({ itemId: row.item_id, input: row.input }));
  const order = { jobId: "typescript-items", scraperId: "example-http", items };
  check("ordered", (await jobs.createJobJobsPost({ newJob: order })).data.jobId, "typescript-items");
  check("done", await successesOnceCompleted(jobs, "typescript-items"), 2);
  const jobId = "typescript-loaded";
  await jobs.createJobJobsPost({ newJob: { jobId, scraperId: "example-http" } });
  const body = new Blob(ROWS.map((row) => JSON.stringify(row) + "\n"));
  check("added", (await jobs.loadItemsJobsJobIdItemsPost({ jobId, body })).data.added, 2);
  await jobs.startJobJobsJobIdStartPost({ jobId });
  check("loaded and done", await successesOnceCompleted(jobs, jobId), 2);
  const stored = await results.downloadJobsJobIdItemsItemIdDownloadGet({ jobId, itemId: "second" });
  check("downloaded", JSON.parse(await stored.text()).echo, { test_param: "world" });
  const format = ExportJobsJobIdExportGetFormatEnum.Csv;
  const exported = await (await results.exportJobsJobIdExportGet({ jobId, format })).text();
  check("exported", [exported.includes("first"), exported.includes("second")], [true, true]);
  const summary = (await results.resultsJobsJobIdResultsGet({ jobId })).data;
  check("results", "counts" in summary && summary.counts.success, 2);
  try {
    await jobs.showJobJobsJobIdGet({ jobId: "nobody" });
  } catch (error) {
    check("unknown", error instanceof ResponseError && (await error.response.json()).error.code, "job_not_found");
    return;
  }
  throw new Error("a job that is not there was found");
}

main(process.argv[2], process.argv[3]).catch((error) => {
  console.error(error);
  process.exit(1);
});
