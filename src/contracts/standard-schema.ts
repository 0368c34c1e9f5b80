/**
 * What is used of a Standard Schema (https://standardschema.dev), which zod, valibot, arktype and others are. Types
 * only.
 */
import type { MaybePromise } from "./types.js";

/**
 * A schema of any library that follows Standard Schema, version 1; `Output` is what it makes of a value, `Input` what
 * it is made of.
 */
export interface StandardSchema<Output = unknown, Input = unknown> {
  /** The interface of the specification. */
  readonly "~standard": {
    /** Of the specification. */
    readonly version: 1;
    /** Name of the library. */
    readonly vendor: string;
    /** The types, for the compiler alone. */
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    /** Validates a value, and returns what becomes of it, or what is wrong. */
    readonly validate: (value: unknown) => MaybePromise<SchemaResult<Output>>;
  };
}

/** What a schema makes of a value: an output, or issues. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** One thing that a schema finds wrong. */
export interface SchemaIssue {
  /** In the words of the schema's library. */
  readonly message: string;
  /** Where in the value; absent: the value itself. */
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}
