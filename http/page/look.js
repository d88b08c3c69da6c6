"use strict";

// What the pages of leafd have in common: elements, numbers, tiles. The page at `/` and the report
// of `make chaos` are both made with it.

function make(tag, attrs, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") element.style.cssText = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function draw(tag, attrs, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attrs)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const color = (name) => `var(--${name})`;
const number = (value) => Math.round(value).toLocaleString("en-US");

function short(value) {
  if (value >= 1e9) return (value / 1e9).toFixed(2) + " G";
  if (value >= 1e6) return (value / 1e6).toFixed(value >= 1e8 ? 0 : 1) + " M";
  if (value >= 1e4) return (value / 1e3).toFixed(0) + " k";
  return number(value);
}

function theme() {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
}

function legend(entries, thin) {
  const box = make("div", { class: "legend" });
  for (const [name, text] of entries) {
    const swatch = make("i", { style: "background:" + color(name), class: thin ? "thin" : "" });
    box.append(make("span", {}, swatch, text));
  }
  return box;
}

function tile(value, what) {
  return make("div", { class: "card tile" }, make("b", {}, value), make("span", {}, what));
}
