// The section on projects, which is there only where projects are switched on. Each question makes the service ask the API
// server, so it is asked seldom, and about one project only when somebody opens its entry.

import { moment, number, text } from './language.js';
import { fillOnce, KeyedList, make, setText } from './dom.js';
import { features } from './features.js';

const pause = 15000; // milliseconds between an answer and the next question
const patience = 30000; // for one answer

const root = document.getElementById('projects');
const list = new KeyedList(root.querySelector('.list'), projectEntry);
let known = null; // the last good answer
let trouble = '';

async function ask(path) {
  const url = new URL(path, document.baseURI);
  url.username = '';
  url.password = '';
  const answer = await fetch(url, { cache: 'no-cache', headers: { Accept: 'application/json' }, signal: AbortSignal.timeout(patience) });
  const body = await answer.json();
  if (!answer.ok) {
    throw new Error(body.error ?? `HTTP ${answer.status}`);
  }
  return body;
}

async function askAll() {
  if (!document.hidden) {
    try {
      known = await ask('../projects');
      trouble = '';
    } catch (failure) {
      trouble = failure.message;
    }
    renderProjects();
  }
  setTimeout(askAll, pause);
}

// startProjects begins to ask, if there is anything to ask for.
export function startProjects() {
  if (features.projects) {
    root.hidden = false;
    askAll();
  }
}

// renderProjects shows what is known, in the language of the page.
export function renderProjects() {
  const projects = known?.projects ?? [];
  const line = root.querySelector('.trouble');
  const said = trouble ? text('trouble', { reason: trouble }) : (known?.warnings ?? []).join('; ');
  line.hidden = !said;
  setText(line, said);
  setText(root.querySelector('.shown'), number(projects.length));
  const none = root.querySelector('.none');
  none.hidden = !known || projects.length > 0;
  setText(none, text('noProjects'));
  list.show(projects, (project) => project.name);
}

function projectEntry() {
  const name = make('b', 'user');
  const about = make('span', 'about');
  const body = make('div', 'body');
  const node = make('details', 'operation project', make('summary', '', name, about), body);
  let item = null;
  let check = null; // of the last opening
  let queue = null;
  let failed = '';
  const fill = () => {
    if (node.open && item) {
      fillOnce(body, [item, check, queue, failed, text('projectMembers')], () => projectBody(item, check, queue, failed));
    }
  };
  node.addEventListener('toggle', async () => {
    if (!node.open) {
      return;
    }
    fill();
    try {
      const path = `../projects/${encodeURIComponent(item.name)}`;
      check = await ask(`${path}/check`);
      // Without a queue the answer would be a failure, which the browser notes as one.
      queue = check.lines.some((line) => line.name === 'cueue' && line.result === 'ok') ? await ask(`${path}/queue`) : null;
      failed = '';
    } catch (failure) {
      failed = failure.message;
    }
    fill();
  });
  return {
    node,
    update(next) {
      item = next;
      setText(name, item.name);
      setText(about, text('projectAbout', { members: number(item.members.length), nodes: item.nodes ? number(item.nodes.length) : '?' }));
      fill();
    },
  };
}

const tones = { ok: 'ok', partly: 'warn', failed: 'bad', unknown: 'idle' };

function projectBody(item, check, queue, failed) {
  const facts = make('dl', 'facts');
  const fact = (key, value) => {
    if (value) {
      facts.append(make('dt', '', text(key)), make('dd', '', value));
    }
  };
  fact('projectMembers', item.members.map((member) => `${member.name} (${member.role})`).join(', '));
  fact('nodes', (item.nodes ?? []).join(', '));
  fact('projectQuota', Object.entries(item.quota).sort().map(([resource, hard]) => `${resource} ${hard}`).join(', '));
  const parts = [facts];
  if (failed) {
    parts.push(make('p', 'trouble', text('trouble', { reason: failed })));
  }
  if (check) {
    parts.push(make('h3', '', text('projectCheck')), make('ul', 'check', ...check.lines.map((line) => make('li', line.result,
      make('span', `badge ${tones[line.result] ?? 'idle'}`, text(`check_${line.result}`)), ' ', line.text,
      ...(line.todo ? [make('span', 'inner', ` → ${line.todo}`)] : [])))));
  }
  if (queue) {
    const waiting = queue.waiting.map((pod) => make('li', '', make('span', 'mono', `${pod.namespace}/${pod.name}`), pod.since ? ` · ${moment(new Date(pod.since))}` : ''));
    parts.push(make('h3', '', text('projectQueue')), waiting.length > 0 ? make('ol', 'queue', ...waiting) : make('p', 'hint', text('queueEmpty')));
    for (const block of queue.blocked) {
      parts.push(make('p', 'hint bad', `${text(`block_${block.type}`)} ${block.reason}: ${block.message}`));
    }
  }
  return parts;
}
