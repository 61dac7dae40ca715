package e2e

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/browser"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

const root = "../.."

//go:embed walk.js
var walkScript string

// seen is what walk.js sends.
type seen struct {
	Pages []page
	Hits  map[string][]string // addresses that a search found
	Error string
}

type page struct {
	Page, Title string
	Width       int
	Cut         []string
	Pictures    []struct {
		Name    string
		Visible bool
	}
	Diagrams   int
	IDs, Links []string
}

// questions are what people search, and the page that has to be among the first three; "" is none.
var questions = map[string]string{
	"CUDA 12.8": "fleet", "Secure Boot": "kernels", "air gap": "trust", "CrashLoopBackOff": "fix", "precompiled": "kernels",
	"upgrade": "operate", "H100": "fleet", "MIG": "hardware", "OpenShift": "kernels", "proxy": "build", "konvoy": "operate", "qqzzxx": "",
}

// width is that of a telephone: what fits there fits anywhere.
const width = 390

// TestSite opens every page as people with telephones see it.
func TestSite(t *testing.T) {
	tool.Real(t, "builds the site with npm")
	tool.Program(t, "npm", "npm")
	tool.Must(t, "make", "-C", root, "docs")
	dir := filepath.Join(root, "dist", "site")
	walk(t, dir, pagesOf(t, dir))
}

func pagesOf(t *testing.T, dir string) (pages []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".html") && d.Name() != "404.html" {
			name, _ := filepath.Rel(dir, path)
			pages = append(pages, "/"+strings.TrimSuffix(filepath.ToSlash(name), "index.html"))
		}
		return err
	}))
	if len(pages) < 20 {
		t.Fatalf("the site has %d pages: %q", len(pages), pages)
	}
	return pages
}

const frame = `<!doctype html><link rel="icon" href="data:,"><body style="margin:0"><iframe id="frame" style="border:0;width:%dpx;height:%dpx"></iframe><script>%s</script>`

func walk(t *testing.T, dir string, pages []string) {
	t.Helper()
	list := require.Value(json.Marshal(pages))(t)
	asked := require.Value(json.Marshal(slices.Collect(maps.Keys(questions))))(t)
	script := strings.NewReplacer("WIDTH", strconv.Itoa(width), "PAGES", string(list), "QUESTIONS", string(asked)).Replace(walkScript)
	result := seen{}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(dir)))
	mux.HandleFunc("/walk", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, frame, width, 900, script) })
	mux.HandleFunc("POST /result", func(_ http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&result); err != nil {
			result.Error = err.Error()
		}
		cancel()
	})
	b := browser.New(t, mux)
	b.Run(ctx, t, "/walk", "--window-size=1600,1000")
	if result.Error != "" || len(result.Pages) != len(pages) {
		t.Fatalf("%d of %d pages: %s", len(result.Pages), len(pages), result.Error)
	}
	check(t, b.URL, result)
	answered, foreign := b.Requests()
	for _, r := range answered {
		if r.Status >= 400 {
			t.Errorf("%s: status %d", r.Path, r.Status)
		}
	}
	if len(foreign) > 0 {
		t.Errorf("requests to other hosts: %q", foreign)
	}
}

// check judges the pages: their width, pictures, diagrams, links, and the search.
func check(t *testing.T, base string, s seen) {
	t.Helper()
	ids, diagrams := map[string]map[string]bool{}, 0
	for _, p := range s.Pages {
		ids[p.Page] = map[string]bool{}
		for _, id := range p.IDs {
			ids[p.Page][id] = true
		}
		diagrams += p.Diagrams
	}
	for _, p := range s.Pages {
		if p.Title == "" {
			t.Errorf("%s has no title", p.Page)
		}
		if p.Width > width || len(p.Cut) > 0 {
			t.Errorf("%s is %d pixels wide, of %d: %q", p.Page, p.Width, width, p.Cut)
		}
		for _, picture := range p.Pictures {
			if !picture.Visible {
				t.Errorf("%s: the picture %s is not visible", p.Page, picture.Name)
			}
			if strings.Contains(picture.Name, "-dark.") {
				t.Errorf("%s: the picture %s is of the other theme", p.Page, picture.Name)
			}
		}
		for _, link := range p.Links {
			to, err := url.Parse(link)
			if own, ok := strings.CutPrefix(link, base); err != nil || ok && (ids[to.Path] == nil || to.Fragment != "" && !ids[to.Path][to.Fragment]) {
				t.Errorf("%s: the link %s leads nowhere: %v", p.Page, own, err)
			}
		}
	}
	home := s.Pages[slices.IndexFunc(s.Pages, func(p page) bool { return p.Page == "/" })]
	if len(home.Pictures) < 2 || diagrams < 2 {
		t.Errorf("the home has the pictures %v, the site has %d diagrams", home.Pictures, diagrams)
	}
	for question, hits := range s.Hits {
		if want := questions[question]; want == "" && len(hits) > 0 || want != "" && !strings.Contains(strings.Join(hits[:min(len(hits), 3)], " "), "/docs/"+want+".html") {
			t.Errorf("the search for %s found %.400q, want %q", question, hits, want)
		}
	}
}
