#!/usr/bin/env node
/** The bin `keystile`. Everything is in `cli/`. */
import { runProcess } from "./cli/process.js";

await runProcess();
