#!/usr/bin/env node
/** The bin `keystile`. Everything is in `cli/`, which an earlier Node cannot link: so the version is checked first. */
import { EARLIEST_NODE, isEarlierNode } from "../lib/runtime.js";

if (isEarlierNode(process.versions.node)) {
  process.stderr.write(`error: keystile takes Node ${EARLIEST_NODE} or later; this is ${process.versions.node}\n`);
  process.exitCode = 3;
} else {
  const { runProcess } = await import("./io/process.js");
  await runProcess();
}
