package status

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

func render(t testing.TB, r Page) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, r.Write(&b))
	return b.String()
}

func ended(kind releases.BranchType, end string) releases.Coverage {
	return releases.Coverage{Branch: releases.Branch{Type: kind, End: end}, Over: true}
}

// little has every state and every optional part, and texts that would like to be HTML.
func little() Page {
	evil := `"><script src="https://evil.example.com/x.js"></script>`
	return Page{
		Title: "Drivers & <b>friends</b>", Generated: time.Unix(1_800_000_000, 0), Tool: "driver-build v1.2.3", Matrix: "matrix.yaml",
		Repository: "registry.example.com/gpu/driver", Notes: []string{"A note with " + evil},
		Systems: []matrix.System{
			{ID: "debian12", Base: "docker.io/library/debian:12-slim", Archs: []string{"amd64", "arm64"}, Kernels: []string{"6.1"}},
			{ID: "ubuntu16.04", Base: evil, Archs: []string{"amd64"}, Kernels: []string{"4.4", "4.15"}},
		},
		Drivers: []Column{
			{
				Driver: matrix.Driver{Version: "595.84", Branch: "R595", Flavours: []string{"proprietary", "open"},
					Kernel: driverinfo.KernelRule{Min: "4.15", Max: "7.1", Reason: evil}},
				Of: releases.Coverage{Branch: releases.Branch{Type: releases.Production, End: "2027-03"}, Lags: true, Newest: "595.91.07"},
			},
			{Driver: matrix.Driver{Version: "535.309.01", Branch: "R535"}, Of: ended(releases.LongTerm, "2026-06")},
			{Driver: matrix.Driver{Version: "535.261.03", Branch: "R535"}, Of: ended(releases.LongTerm, "2026-06")},
			{Driver: matrix.Driver{Version: "396.54", Branch: "R396"}, Of: ended(releases.NewFeature, releases.EndPassed)},
		},
		Cells: []Cell{
			{Pair: Pair{System: "debian12", Driver: "595.84", Arch: "arm64", Tag: "595.84-debian12"}, State: Missing},
			{Pair: Pair{System: "debian12", Driver: "595.84", Arch: "amd64", Tag: "595.84-debian12", Source: "run"}, State: Built, Digest: "sha256:" + strings.Repeat("0f", 32), Size: 523_456_789, Kernels: []string{"6.1"}, Modules: []string{"6.1.0-53-amd64"}, Created: time.Unix(1_700_000_000, 0)},
			{Pair: Pair{System: "debian12", Driver: "535.309.01", Arch: "amd64", Tag: "535.309.01-debian12"}, State: Old, Why: "its base is " + evil, Size: 1_500_000_000},
			{Pair: Pair{System: "debian12", Driver: "535.309.01", Arch: "arm64"}, State: Excluded, Why: "no-archive: none"},
			{Pair: Pair{System: "debian12", Driver: "535.261.03", Arch: "amd64", Tag: "535.261.03-debian12"}, State: Buildable, Size: 12_345},
			{Pair: Pair{System: "debian12", Driver: "396.54", Arch: "amd64"}, State: Excluded, Why: evil},
			{Pair: Pair{System: "debian12", Driver: "396.54", Arch: "arm64"}, State: Excluded, Why: evil},
			{Pair: Pair{System: "ubuntu16.04", Driver: "595.84", Arch: "amd64", Tag: evil}, State: Unknown, Why: "503"},
			{Pair: Pair{System: "ubuntu16.04", Driver: "396.54", Arch: "amd64"}, State: Unknown},
		},
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	whole := render(t, little())
	// The style is style.css, its digest is TestPolicy's.
	got := regexp.MustCompile(`sha256-.*?=&#39;`).ReplaceAllString(strings.Replace(whole, styleText, "", 1), "sha256-DIGEST=&#39;")
	goldentest.Compare(t, "testdata/page.html", got)
	assert.Equalf(t, whole, render(t, little()), "the same report gave another page")
}

// What is in a report stays text: nothing of it becomes an element or an attribute.
func TestEscapes(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Page{"little": little(), "the project's matrix": sample(t)} {
		got := render(t, r)
		for _, wrong := range []string{"<script", "<b>friends", `src="`, "javascript:", "@import", "url("} {
			if strings.Contains(got, wrong) {
				t.Errorf("%s: the page has %q", name, wrong)
			}
		}
		for _, m := range regexp.MustCompile(`[ <](?:href|src|action|style|on[a-z]+)="([^"]*)"`).FindAllStringSubmatch(got, -1) {
			if !strings.HasPrefix(m[1], "#") && m[1] != "data:," {
				t.Errorf("%s: the page refers to something outside: %s", name, m[0])
			}
		}
	}
}

// The policy allows the one style and nothing else.
func TestPolicy(t *testing.T) {
	t.Parallel()
	got := render(t, little())
	_, style, _ := strings.Cut(got, "<style>")
	style, _, ok := strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; img-src data:;"
	if plain := strings.NewReplacer("&#39;", "'", "&#43;", "+").Replace(got); !ok || !strings.Contains(plain, `content="`+want) {
		t.Errorf("the page lacks the policy %s", want)
	}
}

// TestLinks checks that every link of the page has a target, every cell has a description, and no id
// occurs twice.
func TestLinks(t *testing.T) {
	t.Parallel()
	r := sample(t)
	got := render(t, r)
	ids := map[string]int{}
	for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(got, -1) {
		if ids[m[1]]++; ids[m[1]] > 1 {
			t.Errorf("two elements have the id %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(got, -1) {
		if ids[m[1]] == 0 {
			t.Errorf("a link leads to #%s, which is not there", m[1])
		}
	}
	images := map[string]int{}
	for _, row := range r.view().Rows {
		for _, l := range slices.Concat(row.Lines, row.Excluded) {
			for _, d := range l.Drivers {
				for _, c := range l.Images {
					images[row.ID+" "+d.Version+" "+c.Arch+" "+string(c.State)+" "+l.Why]++
				}
			}
		}
	}
	assert.Equalf(t, len(r.Cells), len(images), "images in the rows")
	built, excluded := 0, 0
	for _, c := range r.Cells {
		if ids[anchor(c.System, c.Driver)] == 0 {
			t.Errorf("%s %s is not told of", c.System, c.Driver)
		}
		if n := images[c.System+" "+c.Driver+" "+c.Arch+" "+string(c.State)+" "+c.Why]; n != 1 {
			t.Errorf("%s %s %s is in %d rows", c.System, c.Driver, c.Arch, n)
		}
		switch c.State {
		case Built:
			built++
		case Excluded:
			excluded++
		}
	}
	for _, c := range []struct {
		n    int
		name string
	}{{built, "built"}, {excluded, "excluded"}, {len(r.Cells), "all"}} {
		assert.Containsf(t, got, "<b>"+strconv.Itoa(c.n)+"</b> <span>"+c.name+"</span>", "the summary does not say %d %s", c.n, c.name)
	}
}

// Texts and signs stand out from what is behind them as WCAG 2.2 asks (4.5 to 1, level AA), in the light and
// in the dark.
func TestContrast(t *testing.T) {
	t.Parallel()
	parts := strings.SplitN(styleText, "@media", 3)
	for name, part := range map[string]string{"light": parts[0], "dark": parts[1]} {
		colours := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6})`).FindAllStringSubmatch(part, -1) {
			colours[m[1]] = m[2]
		}
		for _, text := range []string{"text", "soft", "link", "built", "out-of-date", "missing", "buildable", "unknown", "excluded"} {
			for _, ground := range []string{"card", "page", "faint", "mark"} {
				want := 4.5
				if text == "excluded" || ground == "mark" && text != "text" && text != "soft" {
					want = 3 // a sign, which level AA asks 3 to 1 of
				}
				if c := contrast(t, colours[text], colours[ground]); c < want {
					t.Errorf("%s: %s on %s is %.2f to 1", name, text, ground, c)
				}
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	light := func(hex string) float64 {
		var sum float64
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n := require.Value(strconv.ParseUint(hex[2*i:2*i+2], 16, 8))(t)
			c := float64(n) / 255
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	both := []float64{light(a), light(b)}
	slices.Sort(both)
	return (both[1] + 0.05) / (both[0] + 0.05)
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	if got := render(t, Page{}); !strings.Contains(got, "No registry was asked") || !strings.Contains(got, "0 systems, 0 drivers, 0 images") {
		t.Error(got)
	}
}
