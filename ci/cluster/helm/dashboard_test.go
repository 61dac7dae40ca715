package helm

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

const chartFiles = "../../../deploy/chart/files/"

// dashboard is the part of Grafana's model that the tests need.
type dashboard struct {
	Title, UID    string
	SchemaVersion int
	ID            *int
	Templating    struct {
		List []struct {
			Name, Type string
			Query      any
			Datasource source
		}
	}
	Panels []panel
}

type source struct{ Type, UID string }

type panel struct {
	ID          int
	Type, Title string
	Datasource  source
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct {
		RefID, Expr string
		Datasource  source
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text := require.Value(os.ReadFile(chartFiles + "dashboard.json"))(t)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// expressions returns all queries of the dashboard.
func (d dashboard) expressions() (all []string) {
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

// TestDashboard finds errors that Grafana refuses, or shows wrongly without a message.
func TestDashboard(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	if d.Title == "" || d.UID == "" || len(d.UID) > 40 || d.SchemaVersion < 36 || d.ID != nil {
		t.Errorf("%q, uid %q, schema %d, id %v", d.Title, d.UID, d.SchemaVersion, d.ID)
	}
	if len(d.Templating.List) == 0 || d.Templating.List[0].Type != "datasource" || d.Templating.List[0].Name != "datasource" {
		t.Fatal("the data source is no variable")
	}
	known := map[string]bool{"__rate_interval": true}
	for _, v := range d.Templating.List {
		known[v.Name] = true
	}
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q: its id or title", p.ID, p.Title)
		}
		ids[p.ID] = true
		p.lies(t, taken)
		if p.Type != "row" {
			p.asks(t, known)
		}
	}
}

// lies checks that the panel is within the grid's 24 columns and covers no other panel.
func (p panel) lies(t *testing.T, taken map[[2]int]string) {
	t.Helper()
	g := p.GridPos
	if g.X < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
		t.Errorf("%s: at %+v", p.Title, g)
	}
	for x := g.X; x < g.X+g.W; x++ {
		for y := g.Y; y < g.Y+g.H; y++ {
			if other := taken[[2]int{x, y}]; other != "" {
				t.Fatalf("%s lies over %s", p.Title, other)
			}
			taken[[2]int{x, y}] = p.Title
		}
	}
}

// asks checks that the panel uses the selected data source, and variables that exist.
func (p panel) asks(t *testing.T, known map[string]bool) {
	t.Helper()
	variable := regexp.MustCompile(`\$\{?(\w+)`)
	chosen := source{"prometheus", "${datasource}"}
	if p.Datasource != chosen || len(p.Targets) == 0 {
		t.Errorf("%s: data source %v, %d targets", p.Title, p.Datasource, len(p.Targets))
	}
	refs := map[string]bool{}
	for _, target := range p.Targets {
		if refs[target.RefID] || target.Datasource != chosen || target.Expr == "" {
			t.Errorf("%s: %+v", p.Title, target)
		}
		refs[target.RefID] = true
		for _, m := range variable.FindAllStringSubmatch(target.Expr, -1) {
			assert.Equalf(t, true, known[m[1]], "%s: $%s is a variable", p.Title, m[1])
		}
	}
}

// rules is the content of alerts.yaml.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

func readRules(t *testing.T) rules {
	t.Helper()
	text := require.Value(os.ReadFile(chartFiles + "alerts.yaml"))(t)
	var r rules
	require.NoError(t, yaml.Unmarshal(text, &r))
	if len(r.Groups) != 1 || len(r.Groups[0].Rules) < 8 {
		t.Fatalf("%+v", r)
	}
	return r
}

// runbook is where alerts lead: the heading of docs/fix.md with a row for each of them.
const runbook = "https://github.com/driver-container/driver-container/blob/main/docs/fix.md#an-alert-fires"

// TestMetricsExist: metrics that the dashboard, the rules and the documentation name are served.
func TestMetricsExist(t *testing.T) {
	t.Parallel()
	pages := slices.Concat(fetch(t, "http://"+serve(t, waiting())+"/metrics"), fetch(t, "http://"+serve(t, serving())+"/metrics"))
	served := map[string]string{"up": "", "ALERTS": ""}
	for line := range bytes.Lines(pages) {
		if name, help, ok := strings.Cut(strings.TrimPrefix(string(line), "# HELP "), " "); ok && bytes.HasPrefix(line, []byte("# HELP ")) {
			served[name] = strings.TrimSpace(help)
		}
	}
	name := regexp.MustCompile(`\b(nvidia_driver|process|go)_[a-z0-9_]+\b`)
	asked := readDashboard(t).expressions()
	for _, v := range readDashboard(t).Templating.List {
		text := require.Value(json.Marshal(v.Query))(t)
		asked = append(asked, string(text))
	}
	for _, r := range readRules(t).Groups[0].Rules {
		asked = append(asked, r.Expr, r.Annotations["description"])
	}
	operate := require.Value(os.ReadFile("../../../docs/operate.md"))(t)
	fix := string(require.Value(os.ReadFile("../../../docs/fix.md"))(t))
	for _, text := range append(asked, string(operate), fix) {
		for _, n := range name.FindAllString(text, -1) {
			if _, ok := served[n]; !ok {
				t.Errorf("no server serves %s: %.100s", n, text)
			}
		}
	}
	for _, r := range readRules(t).Groups[0].Rules {
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: severity %q, summary %q", r.Alert, r.Labels["severity"], r.Annotations["summary"])
		}
		_, row, _ := strings.Cut(fix, "\n## An alert fires\n")
		assert.Containsf(t, row, "\n| `"+r.Alert+"` |", "docs/fix.md")
		assert.Equalf(t, runbook, r.Annotations["runbook_url"], "%s", r.Alert)
	}
}
