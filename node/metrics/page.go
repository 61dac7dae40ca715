package metrics

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// contentType is the media type of a page.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// metric is the description of one metric.
type metric struct {
	name, help string
	kind       string // as the format has it: gauge or counter
	labels     []string
}

// page collects the series of one scrape, in Prometheus's text format, version 0.0.4. The zero value is empty.
// It is not for several goroutines. The client library is not used: with its protocol buffers it was a seventh
// of driver-entrypoint, for a page of text.
type page struct {
	families map[string]*family
}

type family struct {
	metric metric
	series map[string]float64 // name with labels, as it is written
}

// maxLabel limits the length of a label's value: values come from the driver, the kernel or Kubernetes.
const maxLabel = 300

// add adds one series; values belong to the metric's labels. A series that is on the page already stays as it
// is, because Prometheus refuses a page with the same series twice, and some values come from outside.
func (p *page) add(m metric, value float64, values ...string) {
	if p.families == nil {
		p.families = map[string]*family{}
	}
	f := p.families[m.name]
	if f == nil {
		f = &family{m, map[string]float64{}}
		p.families[m.name] = f
	}
	name := m.name + labelText(m.labels, values)
	if _, found := f.series[name]; !found {
		f.series[name] = value
	}
}

// labelText returns {name="value",...} in the order of the names; nothing without labels.
func labelText(names, values []string) string {
	if len(values) == 0 {
		return ""
	}
	all := make([]string, len(names))
	for i, name := range names {
		value := values[i][:min(len(values[i]), maxLabel)]
		all[i] = name + `="` + escapeValue.Replace(strings.ToValidUTF8(value, "")) + `"`
	}
	slices.Sort(all)
	return "{" + strings.Join(all, ",") + "}"
}

var (
	escapeValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
)

// write writes all series, ordered by metric and labels.
func (p *page) write(w io.Writer) error {
	out := bufio.NewWriter(w) // keeps the first error
	for _, name := range slices.Sorted(maps.Keys(p.families)) {
		f := p.families[name]
		fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, escapeHelp.Replace(f.metric.help), name, f.metric.kind)
		for _, s := range slices.Sorted(maps.Keys(f.series)) {
			fmt.Fprintf(out, "%s %s\n", s, strconv.FormatFloat(f.series[s], 'g', -1, 64))
		}
	}
	return out.Flush()
}
