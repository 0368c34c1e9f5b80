/** What the stores of this package can do, each on its engine; whether the audit trail is kept is an option. */
export const POWERS = {
  leases: true,
  reserves: true,
  idempotency: true,
  usage: true,
  reservations: true,
  analytics: true,
  search: true,
  alerts: true,
  wallets: true,
  rollover: true,
  refusals: true,
} as const;
