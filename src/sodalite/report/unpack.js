// Text that packing.py has packed: five characters for four bytes, compressed (RFC 1951, "deflate").
const unpack = (() => {
  const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";
  const LENGTH = 15; // mask of the length of a code in an entry of a codebook
  const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]; // of the lengths of length codes

  const decoded = (text) => {
    const digit = new Uint8Array(128);
    for (let i = 0; i < ALPHABET.length; i++) digit[ALPHABET.charCodeAt(i)] = i;
    const view = new DataView(new ArrayBuffer((text.length / 5) * 4));
    for (let from = 0, to = 0; from < text.length; to += 4) {
      let value = 0;
      for (let i = 0; i < 5; i++) value = value * 85 + digit[text.charCodeAt(from++)];
      view.setUint32(to, value);
    }
    return new Uint8Array(view.buffer);
  };

  // For every next `bits` bits of the input: the symbol, and in the lowest four bits the length of its code.
  const codebook = (lengths) => {
    const bits = Math.max(...lengths, 1);
    const table = new Uint16Array(1 << bits);
    let code = 0;
    for (let length = 1; length <= bits; length++, code <<= 1) {
      lengths.forEach((own, symbol) => {
        if (own !== length) return;
        let reversed = 0;
        for (let i = 0; i < length; i++) reversed |= ((code >> i) & 1) << (length - 1 - i);
        for (let place = reversed; place < table.length; place += 1 << length) table[place] = (symbol << 4) | length;
        code++;
      });
    }
    return { bits, table };
  };

  // Where a length or a distance begins, and how many further bits tell it; one row for each symbol.
  const ranges = (first, perStep, count) => {
    const found = [];
    for (let base = first, i = 0; i < count; i++) {
      const more = Math.max(0, Math.floor(i / perStep) - 1);
      found.push([base, more]);
      base += 1 << more;
    }
    return found;
  };
  const LENGTHS = ranges(3, 4, 28).concat([[258, 0]]);
  const DISTANCES = ranges(1, 2, 30);

  const inflated = (input, size) => {
    const output = new Uint8Array(size);
    let at = 0, end = 0, buffer = 0, held = 0;
    const fill = (count) => {
      for (; held < count; held += 8) buffer |= input[at++] << held;
    };
    const take = (count) => {
      fill(count);
      const value = buffer & ((1 << count) - 1);
      buffer >>>= count;
      held -= count;
      return value;
    };
    const symbol = ({ bits, table }) => {
      fill(bits);
      const found = table[buffer & ((1 << bits) - 1)];
      buffer >>>= found & LENGTH;
      held -= found & LENGTH;
      return found >> 4;
    };
    const fixed = () => [
      codebook(Array.from({ length: 288 }, (_, i) => (i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8))),
      codebook(new Array(30).fill(5)),
    ];
    const given = () => {
      const literals = take(5) + 257, distances = take(5) + 1, count = take(4) + 4;
      const short = new Array(19).fill(0);
      for (let i = 0; i < count; i++) short[ORDER[i]] = take(3);
      const book = codebook(short), lengths = [];
      while (lengths.length < literals + distances) {
        const next = symbol(book);
        if (next < 16) lengths.push(next);
        else if (next === 16) for (let n = take(2) + 3, last = lengths.at(-1); n; n--) lengths.push(last);
        else for (let n = next === 17 ? take(3) + 3 : take(7) + 11; n; n--) lengths.push(0);
      }
      return [codebook(lengths.slice(0, literals)), codebook(lengths.slice(literals))];
    };
    for (let last = 0; !last;) {
      last = take(1);
      const kind = take(2);
      if (kind === 0) {
        take(held % 8);
        const count = take(16);
        take(16);
        for (let i = 0; i < count; i++) output[end++] = take(8);
        continue;
      }
      const [literals, distances] = kind === 1 ? fixed() : given();
      for (let next; (next = symbol(literals)) !== 256;) {
        if (next < 256) {
          output[end++] = next;
          continue;
        }
        const [length, more] = LENGTHS[next - 257], copied = length + take(more);
        const [distance, further] = DISTANCES[symbol(distances)], back = distance + take(further);
        for (const stop = end + copied; end < stop; end++) output[end] = output[end - back];
      }
    }
    return output;
  };

  return (id) => {
    const { textContent, dataset } = document.getElementById(id);
    return new TextDecoder().decode(inflated(decoded(textContent), Number(dataset.size)));
  };
})();
