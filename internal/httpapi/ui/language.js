// The language of the page, and how texts, numbers and times are written in it.

import { texts } from './texts.js';

const kept = 'config-server.language';

let language = chosen() ?? (navigator.languages ?? [navigator.language]).map(known).find(Boolean) ?? 'en';

function known(tag) {
  const short = String(tag).toLowerCase().split('-')[0];
  return short in texts ? short : null;
}

// Storage may be refused to the page; the choice then lasts as long as the page.
function chosen() {
  try {
    return known(localStorage.getItem(kept));
  } catch {
    return null;
  }
}

export function current() { return language; }

export function choose(next) {
  language = known(next) ?? language;
  try {
    localStorage.setItem(kept, language);
  } catch {
    // See chosen.
  }
}

// text is the text of a key with {names} replaced; a word that is no key stays as it is.
export function text(key, values = {}) {
  const found = texts[language][key];
  return typeof found !== 'string' ? String(key) : found.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}

// stageText, whatText and kindText fall back to the word of the API: the service may be newer than the page.
export function stageText(stage) { return texts[language].stages[stage] ?? stage; }
export function whatText(what) { return texts[language].whats[what] ?? what; }
export function kindText(kind) { return texts[language].kinds[kind] ?? ''; }

// formatters are costly to make, so each is made once.
const formatters = new Map();

function formatter(make, options) {
  const key = language + JSON.stringify(options);
  if (!formatters.has(key)) {
    formatters.set(key, new make(language, options));
  }
  return formatters.get(key);
}

export function number(value, digits = 0) {
  return formatter(Intl.NumberFormat, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
}

const units = [['day', 86400], ['hour', 3600], ['minute', 60], ['second', 1]];

// span is a time in its largest unit: 3h, 3시간.
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [unit, size] = units.find(([, size]) => whole >= size) ?? ['second', 1];
  return inUnit(Math.floor(whole / size), unit, 0);
}

// took is how long something lasted, as fine as that says something.
export function took(seconds) {
  if (seconds < 1) {
    return inUnit(Math.round(1000 * Math.max(0, seconds)), 'millisecond', 0);
  }
  return seconds < 60 ? inUnit(seconds, 'second', 1) : span(seconds);
}

function inUnit(value, unit, digits) {
  return formatter(Intl.NumberFormat, { style: 'unit', unit, unitDisplay: 'narrow', maximumFractionDigits: digits }).format(value);
}

export function moment(date) { return formatter(Intl.DateTimeFormat, { dateStyle: 'medium', timeStyle: 'medium' }).format(date); }

export function clock(date) { return formatter(Intl.DateTimeFormat, { timeStyle: 'medium' }).format(date); }
