// Asks the service again and again and shows what it tells.

import { choose, clock, current, moment, number, span, stageText, text } from './language.js';
import { KeyedList, make, setAttribute, setShare, setText } from './dom.js';
import { renderProjects, startProjects } from './projects.js';
import { findingEntry, gpuMeter, nodeRow, operationEntry, operationStage, secondsSince, serverClock, stageOf, workspaceRow } from './views.js';

const pause = 2000; // milliseconds between an answer and the next question
const patience = 10000; // for one answer
const staleAfter = 8; // seconds without an answer after which what is shown is not live
const firstShown = 200; // entries of a section before somebody asks for all

const byId = (id) => document.getElementById(id);

// Source is one thing that is asked for, and what is known of it.
class Source {
  constructor(path) {
    this.path = path;
    this.data = null; // the last good answer
    this.at = 0; // when it came
    this.reason = ''; // why the last question had no good answer; empty = it had
    this.since = null; // the first of the questions in a row without
    this.reached = true;
    this.refused = false; // for want of the token
    this.timer = 0;
    this.asking = false;
  }

  async ask() {
    clearTimeout(this.timer);
    if (this.asking || document.hidden) {
      return;
    }
    this.asking = true;
    try {
      await this.askOnce();
    } finally {
      this.asking = false;
      this.timer = setTimeout(() => this.ask(), pause);
    }
    render();
  }

  async askOnce() {
    let answer;
    let body;
    try {
      answer = await fetch(address(this.path), { cache: 'no-cache', headers: { Accept: 'application/json' }, signal: AbortSignal.timeout(patience) });
      body = await answer.text();
    } catch (failure) {
      this.reached = false;
      this.fail(failure.message);
      return;
    }
    this.reached = true;
    this.refused = answer.status === 401;
    noteClock(answer.headers.get('Date'));
    try {
      body = JSON.parse(body);
    } catch {
      this.fail(`HTTP ${answer.status}`);
      return;
    }
    if (!answer.ok) {
      this.fail(body.error ?? `HTTP ${answer.status}`);
      return;
    }
    this.data = body;
    this.at = Date.now();
    this.reason = '';
    this.since = null;
  }

  fail(reason) {
    this.reason = reason || '?';
    this.since ??= new Date();
  }
}

// address is that of a path without the user and the password that the page's own may have: a browser
// refuses to ask such an address.
function address(path) {
  const url = new URL(path, document.baseURI);
  url.username = '';
  url.password = '';
  return url;
}

// noteClock sets ages right where this machine's clock is wrong. The header has whole seconds.
function noteClock(date) {
  const ahead = Date.parse(date) - Date.now();
  serverClock.ahead = Math.abs(ahead) > 3000 ? ahead : 0;
}

const sources = {
  workspaces: new Source('../workspaces'),
  nodes: new Source('../nodes'),
  operations: new Source('../operations?limit=100'),
  findings: new Source('../findings'),
};

// lost tells whether nothing can be reached any more.
function lost() { return Object.values(sources).every((source) => source.reason && !source.reached); }

// Section is one list of the page.
class Section {
  constructor(name, { build, keyOf, words, empty }) {
    this.source = sources[name];
    this.root = byId(name);
    this.keyOf = keyOf;
    this.words = words; // what the filter looks at
    this.empty = empty;
    this.all = false;
    this.list = new KeyedList(this.root.querySelector('tbody, .list'), build);
    this.more = this.root.querySelector('.more');
    this.more.addEventListener('click', () => {
      this.all = true;
      render();
    });
  }

  // show returns how many items fit the filter.
  show(items, terms) {
    const fitting = terms.length === 0 ? items : items.filter((item) => {
      const text = this.words(item).join(' ').toLowerCase();
      return terms.every((term) => text.includes(term));
    });
    const shown = this.all ? fitting : fitting.slice(0, firstShown);
    this.list.show(shown, this.keyOf);
    setText(this.root.querySelector('.shown'), terms.length > 0 ? text('shown', { count: number(fitting.length), all: number(items.length) }) : number(items.length));
    setText(this.more, text('showAll', { all: number(fitting.length) }));
    this.more.hidden = shown.length === fitting.length;
    const none = this.root.querySelector('.none');
    none.hidden = fitting.length > 0 || !this.source.data;
    setText(none, items.length > 0 ? text('nothingFits') : this.empty());
    const table = this.root.querySelector('table');
    if (table) {
      table.hidden = fitting.length === 0;
    }
    return fitting.length;
  }

  // tellTrouble leaves it to the alarm to say that nothing can be reached.
  tellTrouble(lost) {
    const { reason, since, data } = this.source;
    const trouble = this.root.querySelector('.trouble');
    trouble.hidden = !reason || lost;
    this.root.classList.toggle('old', Boolean(reason) && Boolean(data));
    if (!trouble.hidden) {
      setText(trouble, data ? text('troubleSince', { reason, time: clock(since) }) : text('trouble', { reason }));
    }
  }
}

const sections = {
  workspaces: new Section('workspaces', {
    build: workspaceRow, keyOf: (item) => item.pod_name, empty: () => text('noWorkspaces'),
    words: (item) => [item.username, item.pod_name, item.node, item.stage, item.phase, stageText(stageOf(item)),
      ...item.ports.flatMap((port) => [port.purpose, port.node_port, port.internal_port])],
  }),
  nodes: new Section('nodes', { build: nodeRow, keyOf: (item) => item.name, empty: () => text('noNodes'), words: (item) => [item.name] }),
  operations: new Section('operations', {
    build: operationEntry, keyOf: (item) => item.id, empty: () => text('noOperations'),
    words: (item) => [item.operation, item.username, item.pod_name, item.old_pod_name, item.node, item.old_node, item.stage, item.code, item.message, item.detail,
      item.request_id, text(item.operation), operationStage(item).words],
  }),
  findings: new Section('findings', {
    build: findingEntry, keyOf: (item) => JSON.stringify([item.kind, item.object, item.user, item.detail]),
    empty: () => text(sources.findings.data?.checked_at ? 'noFindings' : 'noAudit'),
    words: (item) => [item.kind, item.object, item.user ?? '', item.detail, item.remedy],
  }),
};

const ordered = new Intl.Collator('en', { numeric: true }).compare;

// render shows all that is known. It is cheap where nothing has changed.
function render() {
  const terms = byId('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
  const workspaces = sources.workspaces.data?.workspaces ?? [];
  const operations = sources.operations.data?.operations ?? [];
  const findings = sources.findings.data?.findings ?? [];
  const found = sources.findings.data?.total ?? 0;
  const nodes = [...sources.nodes.data?.nodes ?? []].sort((a, b) => ordered(a.name, b.name));
  const highest = Math.max(100, ...nodes.map((node) => node.score ?? 0));

  let fitting = sections.workspaces.show(workspaces, terms);
  fitting += sections.nodes.show(nodes.map((node) => ({ ...node, highest })), terms);
  fitting += sections.operations.show(operations, terms);
  fitting += sections.findings.show(findings, terms);
  for (const section of Object.values(sections)) {
    section.tellTrouble(lost());
  }
  renderProjects();
  renderPorts();
  gpus.show(sources.nodes.data?.gpus ?? [], (kind) => JSON.stringify([kind.resource, kind.model]));
  renderAudit();
  renderTiles(workspaces, nodes, operations, found);
  renderLife();
  return fitting;
}

const gpus = new KeyedList(byId('gpus'), gpuMeter);

function renderPorts() {
  const ports = sources.nodes.data?.nodeports;
  for (const band of ['reachable', 'all']) {
    const line = byId(`ports-${band}`);
    const fill = ports?.[band];
    const all = fill ? fill.used + fill.free : 0;
    setShare(line.querySelector('.bar'), all > 0 ? fill.used / all : 0);
    line.querySelector('.bar').classList.toggle('full', all > 0 && fill.free / all < 0.1);
    setText(line.querySelector('.figure'), fill ? text('portsFree', { free: number(fill.free), all: number(all) }) : text('portsUnknown'));
  }
  const warnings = sources.nodes.data?.warnings ?? [];
  const list = sections.nodes.root.querySelector('.warnings');
  list.hidden = warnings.length === 0;
  if (list.dataset.shown !== warnings.join('\n')) {
    list.dataset.shown = warnings.join('\n');
    list.replaceChildren(...warnings.map((warning) => make('li', '', warning)));
  }
}

function renderAudit() {
  const data = sources.findings.data;
  const lines = [];
  if (data?.checked_at) {
    lines.push(text('checked', { time: moment(new Date(data.checked_at)), age: span(secondsSince(data.checked_at)) }));
  }
  if (data?.total > data?.findings.length) {
    lines.push(text('firstOf', { count: number(data.findings.length), all: number(data.total) }));
  }
  if (data?.error) {
    lines.push(text('auditError', { reason: data.error }));
  }
  setText(byId('checked'), lines.join(' '));
  byId('checked').hidden = lines.length === 0;
  byId('checked').classList.toggle('bad', Boolean(data?.error));
}

// tile shows a count and a note on it. The tone of either says whether somebody should look there.
function tile(id, source, count, note, tones) {
  const root = byId(`tile-${id}`);
  setText(root.querySelector('.count'), source.data ? count : '–');
  setText(root.querySelector('.note'), source.data ? note : '');
  setAttribute(root.querySelector('.count'), 'data-tone', source.data && count !== '–' ? tones.count ?? 'calm' : 'idle');
  setAttribute(root.querySelector('.note'), 'data-tone', tones.note ?? 'calm');
}

function renderTiles(workspaces, nodes, operations, found) {
  const stages = workspaces.map(stageOf);
  const ready = stages.filter((stage) => stage === 'ready').length;
  const failed = stages.filter((stage) => stage === 'failed').length;
  const counts = [text('ready', { count: number(ready) })];
  if (ready + failed < stages.length) {
    counts.push(text('making', { count: number(stages.length - ready - failed) }));
  }
  if (failed > 0) {
    counts.push(text('failedCount', { count: number(failed) }));
  }
  tile('workspaces', sources.workspaces, number(workspaces.length), counts.join(' · '), failed > 0 ? { note: 'bad' } : {});

  const lame = nodes.filter((node) => !node.ready).length;
  tile('nodes', sources.nodes, number(nodes.length), lame > 0 ? text('notReady', { count: number(lame) }) : text('allReady'), lame > 0 ? { note: 'bad' } : {});

  const fill = sources.nodes.data?.nodeports?.reachable;
  tile('ports', sources.nodes, fill ? number(fill.free) : '–', fill ? text('reachableOf', { all: number(fill.used + fill.free) }) : text('portsUnknown'),
    fill && fill.free < 6 ? { count: 'bad' } : {});

  const underWay = operations.filter((operation) => !operation.done).length;
  const bad = operations.filter((operation) => operation.done && operation.stage === 'failed').length;
  tile('operations', sources.operations, number(underWay), bad > 0 ? text('lastFailed', { count: number(bad) }) : text('noneFailed'),
    { count: underWay > 0 ? 'busy' : 'calm', note: bad > 0 ? 'bad' : 'calm' });

  const { checked_at: checked, error } = sources.findings.data ?? {};
  tile('findings', sources.findings, checked ? number(found) : '–', checked ? text('checkedAgo', { age: span(secondsSince(checked)) }) : text('noAudit'),
    { count: found > 0 ? 'warn' : 'calm', note: error ? 'bad' : 'calm' });
  document.title = found > 0 ? `(${number(found)}) config-server` : 'config-server';
}

// renderLife says whether what is shown is what stands. Only a change of that is told to a screen
// reader.
function renderLife() {
  const all = Object.values(sources);
  const known = all.filter((source) => source.data);
  const refused = all.some((source) => source.refused);
  const oldest = Math.max(0, ...known.map((source) => (Date.now() - source.at) / 1000));
  const alarm = byId('alarm');
  const shown = lost() ? text('unreachable', { time: clock(all[0].since) }) : refused ? text('unauthorized') : '';
  if (alarm.textContent !== shown) {
    if (!shown) {
      tell(text('back'));
    }
    setText(alarm, shown);
    alarm.hidden = !shown;
  }
  const live = byId('live');
  if (known.length < all.length && all.every((source) => !source.reason)) {
    setAttribute(live, 'data-state', 'waiting');
    setText(byId('live-text'), text('waiting'));
  } else if (all.some((source) => source.reason) || oldest > staleAfter) {
    setAttribute(live, 'data-state', 'stale');
    setText(byId('live-text'), text('stale'));
  } else {
    setAttribute(live, 'data-state', 'live');
    setText(byId('live-text'), text('live'));
  }
}

function tell(words) { setText(byId('told'), words); }

function translate() {
  document.documentElement.lang = current();
  for (const node of document.querySelectorAll('[data-text]')) {
    setText(node, text(node.dataset.text));
  }
  for (const node of document.querySelectorAll('[data-label][role="group"], nav[data-label]')) {
    setAttribute(node, 'aria-label', text(node.dataset.label));
  }
  setAttribute(byId('filter'), 'placeholder', text(byId('filter').dataset.hint));
  for (const button of document.querySelectorAll('.languages button')) {
    setAttribute(button, 'aria-pressed', button.lang === current());
  }
}

for (const button of document.querySelectorAll('.languages button')) {
  button.addEventListener('click', () => {
    choose(button.lang);
    translate();
    render();
  });
}

let telling = 0;
byId('filter').addEventListener('input', () => {
  const fitting = render();
  clearTimeout(telling);
  telling = setTimeout(() => tell(byId('filter').value.trim() ? text('filtered', { count: number(fitting) }) : ''), 600);
});
byId('filter-form').addEventListener('submit', (event) => event.preventDefault());

document.addEventListener('visibilitychange', () => {
  for (const source of Object.values(sources)) {
    source.ask();
  }
});

translate();
render();
startProjects();
for (const source of Object.values(sources)) {
  source.ask();
}
// Ages and the sign of life go on between the answers too.
setInterval(() => {
  if (!document.hidden) {
    render();
  }
}, 1000);
