#!/usr/bin/env node
/** The bin `keystile`. Everything is in `cli/`. */
import { runProcess } from "./io/process.js";

await runProcess();
