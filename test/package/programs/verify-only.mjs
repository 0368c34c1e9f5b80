// What a program takes along that only judges keys of a store of its own.
export { createVerifier } from "keystile";
