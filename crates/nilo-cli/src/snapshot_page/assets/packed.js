// Reads lists of whole numbers: seven bits a byte, the lowest first, a set high bit says that more follow; base64 around it.

function packedReader(text) {
  const bytes = atob(text);
  let place = 0;
  const next = () => {
    let number = 0;
    let scale = 1;
    for (;;) {
      const byte = bytes.charCodeAt(place);
      place += 1;
      number += (byte & 127) * scale;
      if (!(byte >= 128)) return number;
      scale *= 128;
    }
  };
  // A difference: even numbers are not negative, odd ones are.
  const change = () => {
    const number = next();
    return number % 2 ? -(number + 1) / 2 : number / 2;
  };
  return { next, change };
}
