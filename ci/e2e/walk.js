// Opens every page of the site in a frame, and sends what it finds to /result. WIDTH, PAGES and QUESTIONS are
// replaced by the test.
const frame = document.getElementById('frame')
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))
const scrolls = 'table, pre, .diagram, .VPSidebar, .VPLocalNavOutlineDropdown'

async function until(what, condition) {
  for (const end = Date.now() + 60_000; Date.now() < end; await sleep(20)) {
    const found = condition()
    if (found) return found
  }
  throw new Error(`waited a minute for ${what}`)
}

async function open(page) {
  frame.contentWindow.name = ''
  const loaded = new Promise((done) => frame.addEventListener('load', done, { once: true }))
  frame.src = page
  await loaded
  const doc = frame.contentDocument
  await until('the page to become alive', () => doc.querySelector('#app').__vue_app__)
  for (const d of doc.querySelectorAll('.diagram')) await until('a diagram', () => d.querySelector('svg'))
  for (const img of doc.querySelectorAll('main img')) {
    img.scrollIntoView()
    await until(`the picture ${img.currentSrc}`, () => img.complete)
  }
  await new Promise(frame.contentWindow.requestAnimationFrame)
  return doc
}

function measure(page, doc) {
  const cut = []
  for (const x of doc.querySelectorAll('.VPNav *, main *')) {
    const r = x.getBoundingClientRect()
    if (r.width > 1 && r.height > 1 && r.right > WIDTH + 0.5 && !x.parentElement.closest(scrolls)) {
      cut.push(`${x.tagName}.${x.getAttribute('class')} ends at ${r.right}: ${x.textContent.trim().slice(0, 60)}`)
    }
  }
  for (const label of doc.querySelectorAll('.diagram foreignObject')) {
    const text = label.firstElementChild.getBoundingClientRect(), box = label.getBoundingClientRect()
    if (text.height > box.height + 1 || text.width > box.width + 1) cut.push(`a label of a diagram: ${label.textContent}`)
  }
  const pictures = [...doc.querySelectorAll('main img')].map((img) => ({
    Name: img.currentSrc.replace(/.*\//, '').slice(0, 80), Visible: img.naturalWidth > 0 && img.offsetWidth > 100 && img.offsetHeight > 50,
  }))
  return {
    Page: page, Title: doc.querySelector('main h1')?.textContent ?? '', Width: doc.documentElement.scrollWidth, Cut: cut.slice(0, 5),
    Pictures: pictures, Diagrams: doc.querySelectorAll('.diagram svg').length,
    IDs: [...doc.querySelectorAll('[id]')].map((x) => x.id),
    Links: [...doc.querySelectorAll('main a[href], .VPSidebar a[href]')].map((x) => x.href),
  }
}

// search types a word as a reader does and returns the addresses of the results.
async function search(word) {
  const doc = await open('/')
  const button = await until('the search button', () => doc.querySelector('.VPNavBarSearch button'))
  button.click()
  const input = await until('the search box', () => doc.querySelector('.VPLocalSearchBox input'))
  input.value = word
  input.dispatchEvent(new Event('input', { bubbles: true }))
  await until('results', () => doc.querySelector('.VPLocalSearchBox .result, .VPLocalSearchBox .no-results'))
  return [...doc.querySelectorAll('.VPLocalSearchBox .result')].map((x) => x.href)
}

async function walk() {
  localStorage.setItem('vitepress-theme-appearance', 'light')
  const found = { Pages: [], Hits: {}, Error: '' }
  try {
    for (const page of PAGES) found.Pages.push(measure(page, await open(page)))
    for (const question of QUESTIONS) found.Hits[question] = await search(question)
  } catch (e) {
    found.Error = `${frame.src}: ${e.stack}`
  }
  await fetch('/result', { method: 'POST', body: JSON.stringify(found) })
}
walk()
