/**
 * A stranger's operators and functions in `public`, for every signature that a statement of keystile could be made to
 * mean: PostgreSQL prefers the one that fits the types exactly, wherever in the search path it is.
 */
import type { TestPostgres } from "../../servers/postgres.js";

const TYPES = [
  ...["text", "boolean", "int4", "int8", "numeric", "float8", "json", "jsonb", "timestamptz", "xid8", "regclass"],
  ...["text[]", "json[]"],
];
const BOOLEAN_OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "~~", "!~~"];
const OPERATORS = [...BOOLEAN_OPERATORS, "||", "+", "-", "*", "/", "%", "->", "->>", "#>", "#>>"];
const FUNCTIONS = [
  ..."abs array_agg array_length array_to_json array_to_string cardinality clock_timestamp coalesce count".split(" "),
  ..."current_setting date_trunc floor format gen_random_uuid greatest has_sequence_privilege hashtext".split(" "),
  ..."hashtextextended json_agg json_build_array json_build_object jsonb_agg jsonb_array_elements".split(" "),
  ..."jsonb_array_elements_text jsonb_build_array jsonb_build_object jsonb_strip_nulls least lower max min mod".split(
    " ",
  ),
  ..."nextval now pg_advisory_xact_lock pg_current_xact_id pg_get_serial_sequence pg_is_in_recovery pg_notify".split(
    " ",
  ),
  ..."pg_sequence_last_value pg_snapshot_xip pg_snapshot_xmax pg_snapshot_xmin pg_try_advisory_xact_lock".split(" "),
  ..."quote_ident random replace round set_config setval sha256 strpos sum to_json to_jsonb to_regclass".split(" "),
  ..."to_regnamespace to_timestamp trunc unnest upper".split(" "),
].filter((name) => !["coalesce", "greatest", "least"].includes(name));

/** Runs as the stranger, so that all that is planted is what a role with CREATE on `public` may plant. */
const PLANT = `
SET search_path = pg_catalog;
CREATE TABLE public.ran (what text, as_role text);
CREATE SEQUENCE public.times_ran;
GRANT ALL ON public.ran, public.times_ran TO PUBLIC;
CREATE FUNCTION public.note(what text) RETURNS void LANGUAGE plpgsql AS $f$ BEGIN
  -- A sequence counts what is rolled back as well.
  PERFORM pg_catalog.nextval('public.times_ran'::pg_catalog.regclass);
  INSERT INTO public.ran VALUES (what, current_user);
END $f$;
DO $do$
DECLARE
  types text[] := '{${TYPES.map((type) => `"${type}"`).join(",")}}';
  one text; two text; o text; f text;
  body text := '(%2$s) RETURNS %3$s LANGUAGE plpgsql AS $f$ BEGIN PERFORM public.note(%1$L); RETURN %4$s; END $f$';
BEGIN
  FOREACH one IN ARRAY types LOOP
    FOREACH f IN ARRAY '{${FUNCTIONS.join(",")}}'::text[] LOOP
      EXECUTE format('CREATE FUNCTION public.%5$I' || body, f || '(' || one || ')', one, 'text', 'NULL', f);
    END LOOP;
    FOREACH two IN ARRAY types LOOP
      FOREACH f IN ARRAY '{${FUNCTIONS.join(",")}}'::text[] LOOP
        CONTINUE WHEN f IN ('count', 'max', 'min', 'sum', 'now', 'random');
        EXECUTE format('CREATE FUNCTION public.%5$I' || body, f || '(' || one || ',' || two || ')', one || ',' || two, 'text', 'NULL', f);
      END LOOP;
      FOREACH o IN ARRAY '{${OPERATORS.map((operator) => `"${operator}"`).join(",")}}'::text[] LOOP
        f := 'op' || array_position('{${OPERATORS.map((operator) => `"${operator}"`).join(",")}}'::text[], o);
        EXECUTE format('CREATE FUNCTION public.%5$I' || body, one || ' ' || o || ' ' || two, one || ',' || two,
          CASE WHEN o = ANY ('{${BOOLEAN_OPERATORS.map((operator) => `"${operator}"`).join(",")}}') THEN 'boolean' ELSE one END, 'NULL', f);
        EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.%I)', o, one, two, f);
      END LOOP;
    END LOOP;
  END LOOP;
END $do$;
${["json_build_array", "jsonb_build_object", "json_build_object", "jsonb_build_array"]
  .flatMap((name) =>
    [3, 4, 5, 6].map(
      (n) =>
        `CREATE FUNCTION public.${name}(${Array(n).fill("text").join(", ")}) RETURNS json LANGUAGE plpgsql AS $f$ BEGIN PERFORM public.note('${name}'); RETURN NULL; END $f$;`,
    ),
  )
  .join("\n")}
`;

/**
 * Lets a role of its own plant all of that.
 * @returns tells what of it has run since, and as whom
 */
export async function plantStrangers(server: TestPostgres, url: string): Promise<() => Promise<unknown[]>> {
  const database = new URL(url).pathname.slice(1);
  await server.sql(
    `DO $$ BEGIN CREATE ROLE stranger; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
     GRANT CREATE, USAGE ON SCHEMA public TO stranger`,
    database,
  );
  await server.sql(`SET ROLE stranger; ${PLANT}`, database);
  return async () => {
    const kept = await server.sql("SELECT DISTINCT what, as_role FROM public.ran", database);
    const [times] = await server.sql("SELECT is_called FROM public.times_ran", database);
    return times!["is_called"] === true && kept.length === 0 ? ["rolled back"] : kept;
  };
}
