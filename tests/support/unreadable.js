const seen = [];
const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
const light = (rgb) => rgb.slice(0, 3).map((v) => v / 255)
  .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const colour = parse(getComputedStyle(e).backgroundColor);
    if (colour.length === 3 || colour[3] > 0.99) return colour;
  }
  return [255, 255, 255];
};
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  const box = element.getBoundingClientRect();
  const style = getComputedStyle(element);
  if (!own || !box.width || !box.height || style.visibility === "hidden") continue;
  if (element.disabled || element.closest(".skip, title, .number")) continue;
  const ink = parse(element.namespaceURI.endsWith("svg") ? style.fill : style.color);
  const [a, b] = [light(ink), light(ground(element))].sort((x, y) => y - x);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < (large ? 3 : 4.5)) seen.push(`${element.tagName} ${ratio.toFixed(2)}: ${element.textContent.trim()}`);
}
return seen;
