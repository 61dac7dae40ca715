import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vitepress'
import { configure, slugify } from './markdown.mjs'
import { root, sidebar, stage } from './pages.mjs'

const repository = `https://${/^module (.*)$/m.exec(readFileSync(join(root, 'go.mod'), 'utf8'))[1]}`
const icon = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#4a7c00"/><path d="M4 5l3 3-3 3M8 11h4" stroke="#fff" stroke-width="1.6" fill="none"/></svg>'

// References, figures and what changed come after pages that say what to do.
const boostDocument = (id) => (/(reference|chart|benchmarks|compat|testing|security|CHANGELOG|decisions)/.test(id) ? 0.1 : 1)

export default defineConfig({
  title: 'driver-container',
  description: 'NVIDIA driver images for Kubernetes nodes',
  lang: 'en',
  base: process.env.DOCS_BASE ?? '/',
  srcDir: stage(),
  outDir: join(root, 'dist/site'),
  head: [['link', { rel: 'icon', href: `data:image/svg+xml,${encodeURIComponent(icon)}` }]],
  markdown: { anchor: { slugify }, config: configure(repository) },
  vite: { publicDir: false, build: { assetsInlineLimit: 0, chunkSizeWarningLimit: 4000 } }, // mermaid is that large; only pages with a diagram load it
  themeConfig: {
    sidebar,
    outline: { level: [2, 3] },
    search: { provider: 'local', options: { miniSearch: { searchOptions: { combineWith: 'AND', boostDocument } } } },
    nav: [
      { text: 'First cluster', link: '/docs/install#your-first-cluster' },
      { text: 'Fix a red node', link: '/docs/fix' },
      { text: 'Changelog', link: '/CHANGELOG' },
    ],
    socialLinks: [{ icon: 'github', link: repository }],
  },
})
