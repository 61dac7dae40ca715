package metrics

import (
	"bytes"
	"errors"
	"math"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// parse reads a page as Prometheus does.
func parse(t *testing.T, p *page) (map[string]*dto.MetricFamily, string) {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, p.write(&text))
	written := text.String()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return require.Value(parser.TextToMetricFamilies(&text))(t), written
}

func TestWrite(t *testing.T) {
	t.Parallel()
	a := metric{"a_total", "Counts \\ and\nlines.", "counter", []string{"z", "b"}}
	b := metric{name: "b", help: "Plain.", kind: "gauge"}
	var p page
	p.add(b, math.Inf(1))
	p.add(a, 2, "quote\" back\\ line\n \xff", "x")
	p.add(a, 1.5e9, "", "x")
	p.add(a, 7, "", "x") // the second one does not count
	p.add(b, 3)
	_, text := parse(t, &p)
	assert.Equal(t, `# HELP a_total Counts \\ and\nlines.
# TYPE a_total counter
a_total{b="x",z=""} 1.5e+09
a_total{b="x",z="quote\" back\\ line\n "} 2
# HELP b Plain.
# TYPE b gauge
b +Inf
`, text)
	assert.Equal(t, "-Inf", number(math.Inf(-1)))
	assert.Equal(t, "NaN", number(math.NaN()))
	assert.ErrorContains(t, p.write(broken{}), "broken")
	_, empty := parse(t, &page{})
	assert.Equal(t, "", empty)
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

// Whatever a label has, the client library's encoder writes the same line, and the parser reads it back.
func FuzzLabel(f *testing.F) {
	for _, s := range []string{"", "x", "a\"b", "a\\b", "a\nb", "\xff", "é", "{}", "\r", "\x00"} {
		f.Add(s, 1.5)
	}
	f.Fuzz(func(t *testing.T, value string, number float64) {
		var p page
		p.add(metric{"m", "Help.", "gauge", []string{"l"}}, number, value)
		families, text := parse(t, &p)
		m := families["m"].GetMetric()
		if len(families) != 1 || len(m) != 1 || len(m[0].GetLabel()) != 1 {
			t.Fatalf("%q", text)
		}
		if got := m[0].GetGauge().GetValue(); got != number && !math.IsNaN(number) {
			t.Errorf("%v instead of %v", got, number)
		}
		var theirs bytes.Buffer
		require.Value(expfmt.MetricFamilyToText(&theirs, families["m"]))(t)
		assert.Equal(t, theirs.String(), text)
	})
}
