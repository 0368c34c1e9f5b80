/** Roles and their permissions. */
import { count } from "../../view/format.js";
import { button, editForm, type Field, form, requireTyped, requireUnchanged, typedForm } from "../../view/form.js";
import { html, type Part } from "../../view/html.js";
import { asked, searched, searchField } from "../view/lists.js";
import { code, link, name, section, some } from "../../view/parts.js";
import type { Content, Done, Page, View } from "../view/view.js";
import { search } from "./search.js";
import { toLines } from "./key-fields.js";

const PERMISSIONS: Field = {
  ...{ name: "permissions", label: "Permissions", type: "lines" },
  hint: "One a line, such as documents.read or documents.*; new ones are created.",
};
const toRole = (id: string): string => `/roles/${encodeURIComponent(id)}`;
interface Granting {
  readonly permissions?: readonly { readonly slug: string }[];
}
const slugs = ({ permissions = [] }: Granting): readonly string[] => permissions.map(({ slug }) => slug);
const fieldsOf = (role: Granting): readonly Field[] => [{ ...PERMISSIONS, value: slugs(role).join("\n") }];

async function list(view: View): Promise<Content> {
  const request = { limit: 50, ...asked(view, "search", "cursor") };
  const { data, pagination } = await view.ask("permissions.listRoles", request);
  const rows = data.map(({ id, name: called, description = "", permissions = [] }): Part[] => [
    link(view.path(toRole(id)), name(called)),
    description,
    count(permissions.length, "permission"),
  ]);
  return {
    title: "Roles",
    about: "Permissions under one name. Keys that have a role have all of them.",
    actions: view.may("permissions.createRole") && button(view, "/roles/new", "New role", "primary"),
    body: searched(view, [searchField(view, "Name or description")], {
      ...{ title: "Roles", columns: ["Role", "Description", { title: "Grants", isNumber: true }], rows, pagination },
      empty: "No role is found.",
    }),
  };
}

async function show(view: View, id: string): Promise<Content> {
  const role = await view.ask("permissions.getRole", { role: id });
  const to = toRole(role.id);
  const granted = slugs(role);
  const change = editForm(view, { to, fields: fieldsOf(role), submit: "Save", cancel: "/roles" });
  const deletion = html`<p class="ks-lead">Keys that have it lose what it grants at once.</p>
    ${typedForm(view, { to: `${to}/delete`, submit: "Delete" }, "its name", role.name)}`;
  return {
    title: role.name,
    about: html`${code(role.id)} ${role.description}`,
    body: html`${section("Permissions", some(granted, 200))}
      ${view.may("permissions.setRolePermissions") && section("Change", change)}
      ${view.may("permissions.deleteRole") && section("Delete", deletion)}`,
  };
}

async function save(view: View, roleId: string): Promise<Done> {
  requireUnchanged(view, fieldsOf(await view.ask("permissions.getRole", { role: roleId })));
  const permissions = toLines(view.form.get("permissions"));
  await view.ask("permissions.setRolePermissions", { roleId, permissions });
  return { to: toRole(roleId), notice: "changed" };
}

async function showNew(view: View): Promise<Content> {
  const names: readonly Field[] = [
    { name: "name", label: "Name", isRequired: true },
    { name: "description", label: "Description" },
  ];
  const fields = [...names, PERMISSIONS];
  return { title: "New role", body: form(view, { fields, submit: "Create", cancel: "/roles" }) };
}

async function create(view: View): Promise<Done> {
  const permissions = toLines(view.form.get("permissions"));
  const description = view.form.get("description") ?? "";
  const request = { name: view.form.get("name") ?? "", permissions, ...(description !== "" && { description }) };
  const { roleId } = await view.ask("permissions.createRole", request);
  return { to: toRole(roleId), notice: "created" };
}

async function remove(view: View, id: string): Promise<Done> {
  const role = await view.ask("permissions.getRole", { role: id });
  requireTyped(view, role.name);
  await view.ask("permissions.deleteRole", { role: role.id });
  return { to: "/roles", notice: "deleted" };
}

/** The pages of roles. */
export const rolePages: readonly Page[] = [
  { path: "/roles", needs: "permissions.listRoles", isRead: true, show: list, act: search },
  { path: "/roles/new", needs: "permissions.createRole", show: showNew, act: create },
  { path: "/roles/:id", needs: "permissions.getRole", show, act: save },
  { path: "/roles/:id/delete", needs: "permissions.deleteRole", show, act: remove },
];
