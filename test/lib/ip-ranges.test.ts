/** Client addresses against allow-lists: what is an address, a range, a member. Ruling A4. */
import { isIP } from "node:net";
import { describe, expect, it } from "vitest";
import { createAllowlist, isAddressOrRange } from "../../src/lib/ip-ranges.js";

const GOOD_ADDRESSES = [
  ...["0.0.0.0", "255.255.255.255", "10.0.0.1", "192.168.100.200", "1.2.3.4"],
  ...[
    "::",
    "::1",
    "1::",
    "2001:db8::1",
    "2001:DB8::A",
    "1:2:3:4:5:6:7:8",
    "1:2:3:4:5:6:7::",
    "::2:3:4:5:6:7:8",
    "1:2:3::5:6:7:8",
  ],
  ...[
    "0001:0002:0003:0004:0005:0006:0007:0008",
    "::ffff:1.2.3.4",
    "::FFFF:1.2.3.4",
    "::1.2.3.4",
    "64:ff9b::192.0.2.33",
    "fe80::1",
  ],
  ...["1:2:3:4:5:6:1.2.3.4", "1::6:1.2.3.4", "0000:0000:0000:0000:0000:ffff:255.255.255.255"],
];

const BAD_ADDRESSES = [
  ...[
    "",
    " ",
    "1",
    "1.2.3",
    "1.2.3.4.5",
    "1.2.3.",
    ".1.2.3",
    "1..2.3",
    "1.2.3.256",
    "1.2.3.999",
    "1.2.3.1000",
    "1.2.3.-1",
    "1.2.3.+4",
  ],
  ...[
    "01.2.3.4",
    "1.2.3.04",
    "1.2.3.00",
    "0x1.2.3.4",
    "1.2.3.4e0",
    "1.2.3.a",
    "1,2,3,4",
    "16909060",
    "localhost",
    "example.com",
  ],
  ...[" 1.2.3.4", "1.2.3.4 ", "1.2.3.4\n", "\t1.2.3.4", "1.2.3.4\0", "::1 ", " ::1", "::1\n"],
  ...["\u0661.2.3.4", "1\uff0e2\uff0e3\uff0e4", "\uff11.2.3.4", "::\uff11"],
  ...[
    ":",
    ":::",
    "::::",
    "1:",
    ":1",
    "1:2",
    "1::2::3",
    "::1::",
    "1:::2",
    ":1::2",
    "1::2:",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:",
    ":2:3:4:5:6:7:8",
  ],
  ...[
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7:8::",
    "::1:2:3:4:5:6:7:8",
    "1:2:3:4::5:6:7:8",
    "12345::",
    "::00001",
    "::g",
    "::-1",
    "::0x1",
  ],
  ...[
    "::1.2.3",
    "::1.2.3.4.5",
    "::1.2.3.256",
    "::01.2.3.4",
    "1.2.3.4::",
    "1.2.3.4::1",
    "::1.2.3.4:5",
    "::1.2.3.4:",
    "1.2.3.4:5::6",
  ],
  ...[
    "1:2:3:4:5:6:7:1.2.3.4",
    "1:2:3:4:5:6::1.2.3.4",
    "1:2:3:4:5:1.2.3.4",
    "1:2:3:4:5:6:7:8:1.2.3.4",
    ":1.2.3.4",
    "1.2.3.4%eth0",
    "::1%",
    "%eth0",
    "::%",
  ],
];

describe("isAddressOrRange: addresses", () => {
  it.each(GOOD_ADDRESSES)("ruling A4: %s is an address", (text) => {
    expect(isAddressOrRange(text)).toBe(true);
    expect(isIP(text)).not.toBe(0);
    expect(createAllowlist([[text]])(text)).toBe(true);
  });

  // `1:2:3:4::5:6:7:8` and its like: `::` stands for one group or more, and no group is left.
  it.each(BAD_ADDRESSES)("ruling A4: %j is no address, and is in no list", (text) => {
    expect(isAddressOrRange(text)).toBe(false);
    expect(isAddressOrRange(`${text}/0`)).toBe(false);
    expect(createAllowlist([["0.0.0.0/0", "::/0", text]])(text)).toBe(false);
    expect(createAllowlist([[text]])("1.2.3.4")).toBe(false);
  });

  it("ruling A4: a text of a megabyte is no address, at once", () => {
    for (const part of ["1.", "1:", ":", "0", "%", "/"]) expect(isAddressOrRange(part.repeat(1_000_000))).toBe(false);
    expect(createAllowlist([["fe80::1"]])(`fe80::1%${"x".repeat(1_000_000)}`)).toBe(true);
  });
});

describe("isAddressOrRange: ranges", () => {
  it.each([
    "1.2.3.4/0",
    "1.2.3.4/1",
    "1.2.3.4/9",
    "1.2.3.4/10",
    "1.2.3.4/32",
    "::/0",
    "::/1",
    "2001:db8::/32",
    "::1/99",
    "::1/128",
    "::ffff:1.2.3.4/128",
  ])("ruling A4: %s is a range", (text) => expect(isAddressOrRange(text)).toBe(true));

  it.each([
    ...[
      "1.2.3.4/33",
      "1.2.3.4/128",
      "1.2.3.4/-1",
      "1.2.3.4/",
      "/8",
      "1.2.3.4/08",
      "1.2.3.4/00",
      "1.2.3.4/+8",
      "1.2.3.4/8 ",
      "1.2.3.4/ 8",
    ],
    ...[
      "1.2.3.4/8/8",
      "1.2.3.4/255.0.0.0",
      "1.2.3.4/8.0",
      "1.2.3.4/1e1",
      "1.2.3.4/0x8",
      "1.2.3.4/a",
      "1.2.3.4 /8",
      "10/8",
      "1.2.3/8",
      "*",
      "1.2.3.*",
    ],
    ...[
      "::/129",
      "::/1000",
      "::/-1",
      "::/",
      "::/064",
      "fe80::1%eth0",
      "fe80::%eth0/64",
      "::/ffff::",
      "1.2.3.4-1.2.3.9",
      "1.2.3.4\n/8",
      "1.2.3.4/8\n",
    ],
  ])("ruling A4: %j is none", (text) => {
    expect(isAddressOrRange(text)).toBe(false);
    expect(createAllowlist([[text]])("1.2.3.4")).toBe(false);
  });
});

describe("createAllowlist: membership", () => {
  it.each([
    ["10.0.0.0/8", "10.255.255.255", true],
    ["10.0.0.0/8", "11.0.0.0", false],
    ["10.0.0.0/8", "9.255.255.255", false],
    ["10.9.9.9/8", "10.1.2.3", true],
    ["192.168.1.128/25", "192.168.1.128", true],
    ["192.168.1.128/25", "192.168.1.127", false],
    ["1.2.3.4/31", "1.2.3.5", true],
    ["1.2.3.4/31", "1.2.3.6", false],
    ["1.2.3.4/32", "1.2.3.4", true],
    ["1.2.3.4/32", "1.2.3.5", false],
    ["128.0.0.0/1", "255.255.255.255", true],
    ["128.0.0.0/1", "127.255.255.255", false],
    ["0.0.0.0/0", "203.0.113.9", true],
    ["0.0.0.0/0", "2001:db8::1", false],
    ["0.0.0.0/0", "::1", false],
    ["::/0", "2001:db8::1", true],
    ["::/0", "203.0.113.9", true],
    ["2001:db8::/32", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", true],
    ["2001:db8::/32", "2001:db9::", false],
    ["8000::/1", "ffff::", true],
    ["8000::/1", "7fff::", false],
    ["2001:db8::/127", "2001:db8::1", true],
    ["2001:db8::/127", "2001:db8::2", false],
    ["1.2.3.4", "1.2.3.4", true],
    ["1.2.3.4", "1.2.3.40", false],
    ["::1.2.3.4", "1.2.3.4", false],
    ["::", "0.0.0.0", false],
  ])("ruling A4: %s, address %s: %s", (entry, address, expected) => {
    expect(createAllowlist([[entry]])(address)).toBe(expected);
  });

  it("ruling A4: an IPv4 address and its ::ffff: form are one address, in both directions", () => {
    const forms = ["1.2.3.4", "::ffff:1.2.3.4", "::FFFF:102:304", "0:0:0:0:0:ffff:1.2.3.4", "::ffff:0102:0304"];
    for (const entry of [...forms, "1.2.3.0/24", "::ffff:1.2.3.0/120", "::ffff:0:0/96"]) {
      for (const address of forms) expect(createAllowlist([[entry]])(address), `${address} in ${entry}`).toBe(true);
      expect(createAllowlist([[entry]])("::ffff:2.2.3.4"), entry).toBe(entry === "::ffff:0:0/96");
      expect(createAllowlist([[entry]])("::fffe:1.2.3.4"), entry).toBe(false);
    }
  });

  it("ruling A4: letter case, leading zeros in hexadecimal and compression make no difference", () => {
    const forms = [
      "2001:db8::ab:0:0:1",
      "2001:DB8::AB:0:0:1",
      "2001:0db8:0000:0000:00ab:0000:0000:0001",
      "2001:db8:0:0:ab::1",
    ];
    for (const entry of forms) for (const address of forms) expect(createAllowlist([[entry]])(address)).toBe(true);
  });

  it("ruling A4: the zone of a link-local address is ignored, no other address and no entry has one", () => {
    for (const zone of ["eth0", "1", "en%0", "/64"])
      expect(createAllowlist([["fe80::/10"]])(`fe80::1%${zone}`), zone).toBe(true);
    expect(createAllowlist([["fe80::1"]])("fe80::1%eth0")).toBe(true);
    expect(createAllowlist([["fe80::1"]])("fe80::2%eth0")).toBe(false);
    expect(createAllowlist([["fe80::1%eth0"]])("fe80::1%eth0")).toBe(false);
    expect(createAllowlist([["fe80::/10"]])("febf::1%eth0")).toBe(true);
    for (const address of ["2001:db8::1", "fec0::1", "fe7f::1", "::1", "::ffff:1.2.3.4"]) {
      expect(createAllowlist([["::/0"]])(address), address).toBe(true);
      expect(createAllowlist([["::/0"]])(`${address}%eth0`), address).toBe(false);
    }
    expect(createAllowlist([["::/0"]])("fe80::1%")).toBe(false);
    expect(createAllowlist([["0.0.0.0/0"]])("1.2.3.4%eth0")).toBe(false);
  });

  it("ruling A4: a range is no address of a client", () => {
    expect(createAllowlist([["1.2.3.4"]])("1.2.3.4/32")).toBe(false);
    expect(createAllowlist([["1.2.3.4/32"]])("1.2.3.4/32")).toBe(false);
  });
});

describe("createAllowlist: lists", () => {
  it("ruling A4: without lists every address is allowed, and none, and a malformed one", () => {
    for (const address of ["1.2.3.4", "::1", undefined, "", "nonsense"])
      expect(createAllowlist([])(address)).toBe(true);
  });

  it("ruling A4: a missing or malformed address is in no list", () => {
    for (const address of [undefined, null, 0, 16909060, {}, ["1.2.3.4"], "", "nonsense", "1.2.3.4:", "[1.2.3.4]:80"]) {
      expect(createAllowlist([["0.0.0.0/0", "::/0"]])(address as string | undefined)).toBe(false);
    }
  });

  it("a port, which some proxies add, is ignored, and an address without one is as it was", () => {
    for (const address of ["203.0.113.9:51234", "203.0.113.9", "[::ffff:203.0.113.9]:1"])
      expect(createAllowlist([["203.0.113.9"]])(address), address).toBe(true);
    for (const address of ["[2001:db8::1]:443", "[2001:db8::1]", "2001:db8::1"])
      expect(createAllowlist([["2001:db8::1"]])(address), address).toBe(true);
    // An entry of a list has none.
    for (const entry of ["1.2.3.4:80", "[::1]", "[::1]:80"]) expect(isAddressOrRange(entry)).toBe(false);
    // Of an IPv6 address without brackets the last group is no port.
    expect(createAllowlist([["2001:db8::1"]])("2001:db8::1:443")).toBe(false);
    for (const address of ["203.0.113.9:123456", "203.0.113.9:4a", "[2001:db8::1]x", "[2001:db8::1", "[]:443"])
      expect(createAllowlist([["::/0"]])(address), address).toBe(false);
  });

  it("ruling A4: the address must be in every list, in any entry of each", () => {
    const key = ["10.0.0.0/8", "::1"];
    const api = ["10.1.0.0/16", "192.0.2.1"];
    expect(createAllowlist([key, api])("10.1.2.3")).toBe(true);
    expect(createAllowlist([key, api])("10.2.2.3")).toBe(false);
    expect(createAllowlist([key, api])("192.0.2.1")).toBe(false);
    expect(createAllowlist([api])("192.0.2.1")).toBe(true);
    expect(createAllowlist([key, api])("::1")).toBe(false);
  });

  it("ruling A4: an empty list holds nothing; a malformed entry holds nothing and hides no other", () => {
    expect(createAllowlist([[]])("1.2.3.4")).toBe(false);
    expect(createAllowlist([["1.2.3.4"], []])("1.2.3.4")).toBe(false);
    expect(createAllowlist([["nonsense", "1.2.3.4/99", "1.2.3.4"]])("1.2.3.4")).toBe(true);
    expect(createAllowlist([["nonsense"]])("1.2.3.4")).toBe(false);
  });

  it("answers from the lists as they were", () => {
    const list = ["10.0.0.0/8"];
    const allows = createAllowlist([list]);
    list[0] = "0.0.0.0/0";
    expect(["10.1.2.3", "1.2.3.4", undefined].map((address) => allows(address))).toEqual([true, false, false]);
  });
});
