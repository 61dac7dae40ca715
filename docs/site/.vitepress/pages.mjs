// The pages of the site and their order: by task first, reference second. Each entry is a Markdown file of
// the repository; its first heading is its name here.
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
export const root = join(here, '../../..')

const groups = [
  ['Start', ['README', 'docs/install']],
  ['Build', ['docs/build', 'docs/kernels', 'docs/trust', 'docs/fleet']],
  ['Run', ['docs/operate', 'docs/fix', 'docs/hardware', 'deploy/chart/README', 'reference/chart']],
  ['Commands, metrics, schemas', ['reference/driver-build', 'reference/nvidia-driver', 'reference/metrics', 'reference/schemas']],
  ['Project', ['docs/security', 'docs/benchmarks', 'docs/compat', 'docs/develop', 'CONTRIBUTING', 'SECURITY', 'CHANGELOG']],
]

const names = { README: 'What this is', 'deploy/chart/README': 'The chart' }

// A page of docs that no group lists is still on the site.
const listed = new Set(groups.flatMap(([, files]) => files))
const others = readdirSync(join(root, 'docs'))
  .filter((name) => name.endsWith('.md'))
  .map((name) => `docs/${name.slice(0, -3)}`)
  .filter((name) => !listed.has(name))
if (others.length > 0) groups.push(['More', others])

// source is the file of a page: of the repository or, for a reference, of the folder that `make docs` has filled.
const source = (file) => join(file.startsWith('reference/') ? join(here, '..') : root, `${file}.md`)

// reference is the page of the site that shows a file of the repository: a help text, a schema, the metrics.
export const reference = (file) => {
  const program = /^cmd\/(.*)\/testdata\/help-/.exec(file)?.[1].replace('driver-entrypoint', 'nvidia-driver')
  const schema = /^docs\/schema\/(.*)\.schema\.json$/.exec(file)?.[1]
  if (file === 'node/metrics/series.go') return '/reference/metrics'
  return program ? `/reference/${program}` : schema && `/reference/schemas#${schema}`
}

const title = (file) => names[file] ?? /^# (.*)$/m.exec(readFileSync(source(file), 'utf8'))[1].replaceAll('`', '')

// address is where the site has a file of the repository, without the ending: README.md is the home.
export const address = (file) => `/${file.replace(/(^|\/)README$/, '$1')}`

export const pages = new Set(groups.flatMap(([, files]) => files))
for (const file of pages) {
  if (!existsSync(source(file))) throw new Error(`docs/site lists ${file}.md, which does not exist: change .vitepress/pages.mjs`)
}

export const sidebar = groups.map(([text, files]) => ({ text, items: files.map((file) => ({ text: title(file), link: address(file) })) }))

// stage copies the pages and their pictures to a folder from which Node finds the packages that pages import, and
// returns it. `make docs` has copied this folder to dist/docs, which is as deep as docs/site.
export function stage() {
  const to = join(here, '../pages')
  rmSync(to, { recursive: true, force: true })
  for (const file of pages) {
    const name = join(to, `${file.replace(/(^|\/)README$/, '$1index')}.md`)
    mkdirSync(dirname(name), { recursive: true })
    cpSync(source(file), name)
  }
  if (existsSync(join(root, 'docs/pictures'))) cpSync(join(root, 'docs/pictures'), join(to, 'docs/pictures'), { recursive: true })
  return to
}
