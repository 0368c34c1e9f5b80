/** The checksum of new keys, computed apart from the code that makes it. */
const BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const LENGTH = 6;

const TABLE = Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc >>> 0;
});

/** Whether a text ends in the CRC-32 of what is before it, as six digits of Base58. */
export function hasKeyChecksum(text: string): boolean {
  const cut = text.length - LENGTH;
  if (cut <= 0) return false;
  let crc = 0xffffffff;
  for (const byte of Buffer.from(text.slice(0, cut))) crc = (crc >>> 8) ^ TABLE[(crc ^ byte) & 0xff]!;
  let rest = ~crc >>> 0;
  let digits = "";
  for (let i = 0; i < LENGTH; i++, rest = Math.floor(rest / 58)) digits = BASE58[rest % 58]! + digits;
  return text.slice(cut) === digits;
}
