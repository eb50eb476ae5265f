// How one workspace, node, operation or finding looks. Each function returns { node, update(item) }.

import { kindText, moment, number, span, stageText, text, took, whatText } from './language.js';
import { fillOnce, make, setAttribute, setShare, setText } from './dom.js';

// serverClock is what the service's clock is ahead of this one's, in milliseconds.
export const serverClock = { ahead: 0 };

export function secondsSince(at) { return (Date.now() + serverClock.ahead - Date.parse(at)) / 1000; }

function time(words = (age) => age) {
  const node = make('time');
  return {
    node,
    update(at) {
      setAttribute(node, 'datetime', at);
      setAttribute(node, 'title', moment(new Date(at)));
      setText(node, words(span(secondsSince(at))));
    },
  };
}

function badge(node, tone, words) {
  setAttribute(node, 'class', `badge ${tone}`);
  setText(node, words);
}

function row(...cells) {
  const node = make('tr');
  setAttribute(node, 'role', 'row');
  for (const cell of cells) {
    setAttribute(cell, 'role', 'cell');
  }
  node.append(...cells);
  return node;
}

function label(cell, key) { setAttribute(cell, 'data-label', text(key)); }

const tones = { ready: 'ok', failed: 'bad', unknown: 'idle' };

export function stageOf(workspace) { return workspace.phase === 'Terminating' ? 'terminating' : workspace.stage; }

export function workspaceRow() {
  const link = make('a');
  const stage = make('span');
  const age = time();
  const user = make('td', 'user', link);
  const state = make('td', 'state', stage);
  const place = make('td', 'node');
  const ports = make('td', 'ports');
  const count = make('span');
  const indexes = make('span', 'inner');
  const gpus = make('td', 'number gpus', count, indexes);
  const born = make('td', 'number age', age.node);
  const pod = make('td', 'pod mono');
  return {
    node: row(user, state, place, ports, gpus, born, pod),
    update(item) {
      setText(link, item.username);
      setAttribute(link, 'href', `../pods/${encodeURIComponent(item.username)}/status`);
      setAttribute(link, 'title', text('statusOf', { user: item.username }));
      const shown = stageOf(item);
      badge(stage, tones[shown] ?? 'busy', stageText(shown));
      setAttribute(stage, 'title', item.phase);
      setText(place, item.node);
      fillOnce(ports, [item.ports, text('portTitle')], () => item.ports.map(portChip));
      setText(count, number(item.gpus));
      setText(indexes, item.gpu_indexes ? ` (${item.gpu_indexes.join(', ')})` : '');
      setAttribute(gpus, 'title', item.gpu_option ?? (item.gpu_indexes ?? []).map((index) => `/dev/nvidia${index}`).join(' '));
      age.update(item.created_at);
      setText(pod, item.pod_name);
      setAttribute(pod, 'title', item.pod_name);
      label(user, 'user');
      label(state, 'stage');
      label(place, 'node');
      label(ports, 'ports');
      label(gpus, 'gpus');
      label(born, 'age');
      label(pod, 'pod');
    },
  };
}

function portChip(port) {
  const chip = make('span', 'port', make('span', 'purpose', port.purpose), ' ', make('b', '', String(port.node_port)), make('span', 'inner', ` → ${port.internal_port}`));
  chip.title = `${port.purpose}: ${text('portTitle', { node: port.node_port, internal: port.internal_port })}`;
  return chip;
}

export function nodeRow() {
  const name = make('td', 'name');
  const ready = make('span');
  const closed = make('span');
  const state = make('td', 'state', ready, ' ', closed);
  const bar = make('span', 'bar', make('span'));
  bar.setAttribute('aria-hidden', 'true');
  const score = make('span', 'figure');
  const load = make('td', 'load', bar, ' ', score);
  const workspaces = make('td', 'number');
  return {
    node: row(name, state, load, workspaces),
    update(item) {
      setText(name, item.name);
      badge(ready, item.ready ? 'ok' : 'bad', text(item.ready ? 'nodeReady' : 'nodeNotReady'));
      badge(closed, 'idle', text('nodeClosed'));
      closed.hidden = item.schedulable;
      bar.hidden = item.score === null;
      setShare(bar, (item.score ?? 0) / item.highest);
      setText(score, item.score === null ? text('noScore') : number(item.score, 1));
      setText(workspaces, number(item.workspaces));
      label(name, 'node');
      label(state, 'state');
      label(load, 'load');
      label(workspaces, 'workspaces');
    },
  };
}

// gpuMeter tells how many GPUs of one resource and model are free. A resource without a model speaks for itself.
export function gpuMeter() {
  const name = make('span', 'name');
  const bar = make('span', 'bar', make('span'));
  bar.setAttribute('aria-hidden', 'true');
  const figure = make('span', 'figure');
  return {
    node: make('p', '', name, ' ', bar, ' ', figure),
    update(kind) {
      const all = kind.used + kind.free;
      setText(name, kind.model || kind.resource);
      setAttribute(name, 'title', kind.resource);
      setShare(bar, all > 0 ? kind.used / all : 0);
      bar.classList.toggle('full', kind.free === 0);
      setText(figure, text('gpusFree', { free: number(kind.free), all: number(all) }));
    },
  };
}

export function operationStage(item) {
  if (!item.done) {
    return { tone: 'busy', words: stageText(item.stage) };
  }
  return item.stage === 'failed' ? { tone: 'bad', words: text('error') } : { tone: 'ok', words: text('done') };
}

function seconds(item) { return item.done ? (Date.parse(item.updated_at) - Date.parse(item.started_at)) / 1000 : secondsSince(item.started_at); }

export function operationEntry() {
  const stage = make('span');
  const kind = make('span', 'kind');
  const user = make('b', 'user');
  const place = make('span', 'place');
  const age = time((age) => text('ago', { age }));
  const length = make('span', 'length');
  const body = make('div', 'body');
  const node = make('details', 'operation', make('summary', '', stage, user, make('span', 'about', kind, place, make('span', 'times', length, age.node))), body);
  let item = null;
  const fill = () => {
    if (node.open && item) {
      fillOnce(body, [item, text('steps')], () => operationBody(item));
    }
  };
  node.addEventListener('toggle', fill);
  return {
    node,
    update(next) {
      item = next;
      const { tone, words } = operationStage(item);
      badge(stage, tone, words);
      setText(kind, text(item.operation));
      setText(user, item.username);
      setText(place, item.old_node && item.node ? `${item.old_node} → ${item.node}` : item.node);
      setText(length, item.done ? text('took', { time: took(seconds(item)) }) : text('since', { time: span(seconds(item)) }));
      age.update(item.started_at);
      fill();
    },
  };
}

function operationBody(item) {
  const facts = make('dl', 'facts');
  const fact = (key, value, classes = '') => {
    if (value) {
      facts.append(make('dt', '', text(key)), make('dd', classes, value));
    }
  };
  fact('message', item.message);
  fact('code', item.code, 'mono');
  fact('detail', item.detail, 'detail');
  fact('pod', item.pod_name, 'mono');
  fact('from', [item.old_pod_name, item.old_node].filter(Boolean).join(' · '), 'mono');
  fact('started', moment(new Date(item.started_at)));
  fact('request', item.request_id, 'mono');
  const longest = Math.max(0.001, ...item.steps.map((step) => step.seconds));
  const steps = item.steps.map((step) => {
    const bar = make('span', 'bar', make('span'));
    bar.setAttribute('aria-hidden', 'true');
    setShare(bar, step.seconds / longest);
    const words = step.result === 'running' ? text('running') : took(step.seconds);
    return make('li', step.result, mark(step.result), make('span', 'step mono', step.step), bar, make('span', 'figure', words));
  });
  const parts = [facts, make('h3', '', text('steps')), steps.length > 0 ? make('ol', 'steps', ...steps) : make('p', 'hint', text('noSteps'))];
  if (item.undo.length > 0) {
    const undone = item.undo.map((undo) => make('li', undo.result, mark(undo.result), make('span', 'what', whatText(undo.what)),
      make('span', 'step mono', undo.step), make('span', 'figure', text(undo.result))));
    parts.push(make('h3', '', text('undo')), make('ol', 'steps undone', ...undone));
  }
  return parts;
}

function mark(result) {
  const sign = { ok: '✓', error: '✗', running: '…', undone: '↩', none: '·' }[result] ?? '?';
  const node = make('span', 'mark', make('span', '', sign), make('span', 'unseen', text(result)));
  node.firstChild.setAttribute('aria-hidden', 'true');
  return node;
}

export function findingEntry() {
  const kind = make('span', 'badge warn mono');
  const meaning = make('span', 'meaning');
  const object = make('b', 'object mono');
  const detail = make('p', 'detail');
  const command = make('code', '');
  const copy = make('button', 'copy');
  copy.type = 'button';
  const box = make('div', 'command', make('pre', '', command), copy);
  const node = make('article', 'finding', make('p', 'head', kind, object, meaning), detail, box);
  let reset = 0;
  copy.addEventListener('click', async () => {
    const done = await copyText(command);
    setText(copy, text(done ? 'copied' : 'copyFailed'));
    clearTimeout(reset);
    reset = setTimeout(() => {
      reset = 0;
      setText(copy, text('copy'));
    }, 2000);
  });
  return {
    node,
    update(item) {
      setText(kind, item.kind);
      setText(meaning, kindText(item.kind));
      setText(object, item.object);
      setText(detail, item.detail);
      setText(command, item.remedy);
      box.hidden = !item.remedy;
      setAttribute(copy, 'aria-label', text('copyOf', { object: item.object }));
      if (!reset) {
        setText(copy, text('copy'));
      }
    },
  };
}

// copyText takes the older way where the newer is refused: pages that came over plain HTTP.
async function copyText(node) {
  try {
    await navigator.clipboard.writeText(node.textContent);
    return true;
  } catch {
    const selection = getSelection();
    selection.selectAllChildren(node);
    return document.execCommand('copy');
  }
}
