// Package exposition writes pages in Prometheus's text format, version 0.0.4, with the metrics of Go and of
// this process under the names that client_golang gives them.
//
// The client library itself is not used: with its protocol buffers it was a seventh of driver-entrypoint, for
// a page of text. The package knows neither OpenMetrics nor protocol buffers, and no histograms. It keeps
// nothing between two pages.
package exposition

import (
	"bufio"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ContentType is the media type of a page.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Kind is the type of a metric.
type Kind string

// The kinds that are used.
const (
	Gauge   Kind = "gauge"
	Counter Kind = "counter"
	summary Kind = "summary"
)

// Metric is the description of one metric.
type Metric struct {
	Name, Help string
	Kind       Kind
	Labels     []string
}

// Page collects the series of one scrape. The zero value is empty. It is not for several goroutines.
type Page struct {
	families map[string]*family
}

type family struct {
	metric Metric
	series map[string]float64 // name with labels, as it is written
}

// Add adds one series; values belong to the metric's labels. A series that is on the page already stays as it
// is, because Prometheus refuses a page with the same series twice, and some values come from outside.
func (p *Page) Add(m Metric, value float64, values ...string) { p.add(m, "", value, values) }

// add adds a series whose name has a suffix, as the parts of a summary have.
func (p *Page) add(m Metric, suffix string, value float64, values []string) {
	if p.families == nil {
		p.families = map[string]*family{}
	}
	f := p.families[m.Name]
	if f == nil {
		f = &family{m, map[string]float64{}}
		p.families[m.Name] = f
	}
	name := m.Name + suffix + labels(m.Labels, values)
	if _, found := f.series[name]; !found {
		f.series[name] = value
	}
}

// labels returns {name="value",...} in the order of the names; nothing without labels. A label without a
// value is empty.
func labels(names, values []string) string {
	if len(values) == 0 {
		return ""
	}
	all := make([]string, len(names))
	for i, name := range names {
		value := ""
		if i < len(values) {
			value = values[i]
		}
		all[i] = name + `="` + escapeValue.Replace(strings.ToValidUTF8(value, "")) + `"`
	}
	slices.Sort(all)
	return "{" + strings.Join(all, ",") + "}"
}

var (
	escapeValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
)

// Write writes all series, ordered by metric and labels.
func (p *Page) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(p.families)) {
		f := p.families[name]
		lines := []string{"# HELP ", name, " ", escapeHelp.Replace(f.metric.Help), "\n# TYPE ", name, " ", string(f.metric.Kind), "\n"}
		for _, s := range slices.Sorted(maps.Keys(f.series)) {
			lines = append(lines, s, " ", number(f.series[s]), "\n")
		}
		for _, text := range lines {
			if _, err := out.WriteString(text); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

// number returns a value in the form that the format prescribes.
func number(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
