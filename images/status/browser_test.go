package status

import (
	"context"
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	chromium "github.com/driver-container/driver-container/ci/testkit/browser"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// browser shows pages of a server with Chromium.
type browser struct {
	*chromium.Browser
	pages map[string]string // by path
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	b := &browser{pages: map[string]string{}}
	b.Browser = chromium.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := b.pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(text))
	}))
	return b
}

// run starts Chromium on a path of the server and returns what it printed.
func (b *browser) run(t *testing.T, path string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return b.Run(ctx, t, path, append(args, "--virtual-time-budget=10000")...)
}

// measured is what the script in the frame around a page finds.
type measured struct {
	Width, Page int // of the frame, and of the page in it
	Height      int
	Cut         []string
	Cells, Rows int
	Shown       int // rows that are shown when only those that are missing are asked for
}

// frame shows a page at a width and writes down what it looks like there.
const frame = `<!doctype html><link rel="icon" href="data:,"><body><iframe id="f" style="border:0;width:WIDTHpx;height:900px" src="PAGE"></iframe><script>
document.getElementById("f").onload = e => {
  const d = e.target.contentDocument, w = e.target.contentWindow, cut = [];
  for (const x of d.querySelectorAll("body *")) {
    const r = x.getBoundingClientRect();
    if (r.width > 1 && r.right > WIDTH + 0.5 && !x.closest(SCROLLS) && !x.closest("svg.signs")) cut.push(x.tagName + "." + x.className + " " + r.right);
  }
  const m = {Width: w.innerWidth, Page: d.documentElement.scrollWidth, Height: d.documentElement.scrollHeight, Cut: cut.slice(0, 5),
    Cells: d.querySelectorAll(".grid td svg").length, Rows: d.querySelectorAll("tr.cell").length};
  const missing = d.getElementById("show-missing");
  if (missing) { missing.click(); m.Shown = [...d.querySelectorAll("tr.cell")].filter(x => x.offsetHeight > 0).length; }
  document.body.textContent = "<<" + JSON.stringify(m) + ">>";
};
</script>`

func (b *browser) measure(t *testing.T, page, scrolls string, width string) (m measured) {
	t.Helper()
	b.pages["/frame"] = strings.NewReplacer("WIDTH", width, "PAGE", page, "SCROLLS", scrolls).Replace(frame)
	dom := b.run(t, "/frame", "--window-size=1600,1000", "--dump-dom")
	text := regexp.MustCompile(`(?s)&lt;&lt;(.*?)&gt;&gt;`).FindStringSubmatch(dom)
	if text == nil {
		t.Fatalf("the frame measured nothing:\n%.500s", dom)
	}
	require.NoError(t, json.Unmarshal([]byte(html.UnescapeString(text[1])), &m))
	return m
}

func TestBrowser(t *testing.T) {
	b := newBrowser(t)
	r := sample(t)
	b.pages["/page"] = render(t, r)
	// The style for paper, on a screen: Chromium measures nothing on paper. Its own page has the policy, which
	// would refuse it.
	paper := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAllString(b.pages["/page"], "")
	b.pages["/paper"] = strings.Replace(paper, "@media print", "@media all", 1)

	missing, rows, signs := 0, 0, map[[2]string]bool{}
	for _, row := range r.view().Rows {
		rows += len(row.Lines) + len(row.Excluded)
		for _, l := range row.Lines {
			if l.State == Missing {
				missing++
			}
			for _, d := range l.Drivers {
				signs[[2]string{row.ID, d.Version}] = true
			}
		}
	}
	for _, width := range []string{"320", "900", "1440"} {
		m := b.measure(t, "/page", `".scroll"`, width)
		if m.Page > m.Width || len(m.Cut) > 0 {
			t.Errorf("at %s pixels the page is %d wide: %q", width, m.Page, m.Cut)
		}
		if m.Rows != rows || m.Cells < len(signs) {
			t.Errorf("at %s pixels the page has %d rows and %d signs, want %d and at least %d", width, m.Rows, m.Cells, rows, len(signs))
		}
		if width == "1440" && m.Height > 60*len(r.Cells) {
			t.Errorf("the page is %d pixels tall for %d images", m.Height, len(r.Cells))
		}
		if m.Shown != missing {
			t.Errorf("at %s pixels %d rows are shown as missing, want %d", width, m.Shown, missing)
		}
	}
	for i := range r.Cells { // no registry was asked
		if c := &r.Cells[i]; c.State != Excluded {
			*c = Cell{Pair: c.Pair, State: Buildable, Kernels: c.Kernels}
			c.Patches, c.Companions = nil, nil
		}
	}
	b.pages["/page"] = render(t, r)
	if m := b.measure(t, "/page", `".scroll"`, "1440"); m.Height > 30*len(r.Cells) {
		t.Errorf("without a registry the page is %d pixels tall for %d images", m.Height, len(r.Cells))
	}
	// A4 on its side, less the margins, at 96 pixels an inch: nothing scrolls on paper.
	if m := b.measure(t, "/paper", `".nothing"`, "1039"); m.Page > m.Width || len(m.Cut) > 0 {
		t.Errorf("on paper the page is %d wide of %d: %q", m.Page, m.Width, m.Cut)
	}
	answered, foreign := b.Requests()
	if len(foreign) > 0 {
		t.Errorf("Chromium asked for %q", foreign)
	}
	for _, r := range answered {
		if !slices.Contains([]string{"/page", "/paper", "/frame"}, r.Path) {
			t.Errorf("Chromium asked for %s", r.Path)
		}
	}
}
