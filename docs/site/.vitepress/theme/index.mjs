import { nextTick, watch } from 'vue'
import { onContentUpdated, useData } from 'vitepress'
import DefaultTheme from 'vitepress/theme-without-fonts'
import MermaidDiagram from './MermaidDiagram.vue'
import './style.css'

// showTheme selects the pictures of the theme that the reader chose here, which the browser does not know.
function showTheme(isDark) {
  for (const source of document.querySelectorAll('source[media*="prefers-color-scheme"], source[data-theme]')) {
    source.dataset.theme ??= source.media.includes('dark') ? 'dark' : 'light'
    source.media = (source.dataset.theme === 'dark') === isDark ? 'all' : 'not all'
  }
}

export default {
  extends: DefaultTheme,
  enhanceApp: ({ app }) => app.component('MermaidDiagram', MermaidDiagram),
  setup() {
    const { isDark } = useData()
    onContentUpdated(() => showTheme(isDark.value))
    watch(isDark, (dark) => nextTick(() => showTheme(dark)))
  },
}
