// Markdown as GitHub shows it: its anchors, links between files, diagrams.
import { existsSync, statSync } from 'node:fs'
import { join, posix } from 'node:path'
import { address, pages, reference, root } from './pages.mjs'

// slugify makes the anchors of GitHub and GitLab, which ci/lint checks.
export const slugify = (text) =>
  text.trim().toLowerCase().replace(/[^\p{L}\p{N}\-_ ]/gu, '').replaceAll(' ', '-')

// target is where the site sends a relative link: to a page, or to the repository for any other file.
const target = (from, href, repository) => {
  if (/^([a-z]+:|\/|#)/.test(href)) return href
  const [path, anchor] = href.split('#')
  const file = posix.join(posix.dirname(from), path)
  const hash = anchor === undefined ? '' : `#${anchor}`
  const page = file.replace(/\.md$/, '')
  if (file.endsWith('.md') && pages.has(page)) return address(page) + hash
  if (reference(file)) return reference(file)
  if (!existsSync(join(root, file))) throw new Error(`${from}: the link ${href} leads nowhere`)
  return `${repository}/${statSync(join(root, file)).isDirectory() ? 'tree' : 'blob'}/main/${file.replace(/\/$/, '')}${hash}`
}

export const configure = (repository) => (md) => {
  md.core.ruler.push('repository-links', (state) => {
    for (const token of state.tokens.flatMap((block) => [block, ...(block.children ?? [])])) {
      if (token.type === 'link_open') token.attrSet('href', target(sourceOf(state.env), token.attrGet('href'), repository))
      if (token.type === 'code_block') Object.assign(token, { type: 'fence', tag: 'code', info: 'txt', markup: '```' }) // gets the button that copies
    }
  })
  md.core.ruler.push('tables', (state) => describeTables(state.tokens))
  const fence = md.renderer.rules.fence
  md.renderer.rules.fence = (tokens, i, options, env, self) => {
    if (tokens[i].info.trim() !== 'mermaid') return fence(tokens, i, options, env, self)
    return `<ClientOnly><MermaidDiagram code="${encodeURIComponent(tokens[i].content)}" /></ClientOnly>\n`
  }
  // Vue would take two braces for code of its own; VitePress keeps it off blocks of code only.
  for (const rule of ['text', 'code_inline']) {
    const render = md.renderer.rules[rule]
    md.renderer.rules[rule] = (...args) => render(...args).replaceAll('{{', '&#123;&#123;')
  }
}

// describeTables gives each cell the head of its column, which narrow pages show above it, and marks short code,
// which is not broken.
function describeTables(tokens) {
  let heads = [], column = 0
  tokens.forEach((token, i) => {
    if (token.type === 'table_open') heads = []
    if (token.type === 'tr_open') column = 0
    if (token.type === 'th_open') heads.push(tokens[i + 1].content)
    if (token.type !== 'td_open') return
    if (tokens[i + 1].content !== '') token.attrSet('data-head', heads[column].replaceAll(/[`*]|\]\(.*?\)|\[/g, ''))
    column += 1
    for (const child of tokens[i + 1].children) {
      if (child.type === 'code_inline' && child.content.length <= 24) child.attrJoin('class', 'short')
    }
  })
}

// sourceOf is the file of the repository that a page was made from.
const sourceOf = (env) => (env.relativePath ?? '').replace(/(^|\/)index\.md$/, '$1README.md')
