package evict

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestPausedValue(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 60)
	for value, want := range map[string]string{
		"": "", "false": "false", "true": pausedSuffix, pausedSuffix: pausedSuffix, "pre-installed": "pre-installed_" + pausedSuffix,
		"team-a": "team-a_" + pausedSuffix, "team-a_" + pausedSuffix: "team-a_" + pausedSuffix, long: pausedSuffix,
	} {
		assert.Equalf(t, want, pausedValue(value), "%q becomes", value)
	}
}

func TestParseRecord(t *testing.T) {
	t.Parallel()
	r := record{Pod: "a/b", UID: "u", Since: time.Unix(1, 0).UTC(), Cordoned: true, Labels: map[string]string{deployPrefix + "dcgm": "true"}}
	assert.Same(t, r, require.Value(parseRecord(r.String()))(t))
	for name, tc := range map[string][2]string{
		"no JSON":        {"yes", "invalid"},
		"cut":            {r.String()[:20], "unexpected end"},
		"too long":       {`{"pod":"` + strings.Repeat("x", maxRecord) + `"}`, "bytes"},
		"another label":  {`{"labels":{"node-role.kubernetes.io/control-plane":"x"}}`, "not one that is paused"},
		"no label value": {`{"labels":{"nvidia.com/gpu.deploy.dcgm":"a b"}}`, "never paused"},
	} {
		assert.ErrorContainsf(t, assert.Err(parseRecord(tc[0])), tc[1], "%s", name)
	}
}

// FuzzRecord: whatever the annotation contains, only labels that this program pauses get a value, and a valid
// one.
func FuzzRecord(f *testing.F) {
	f.Add(`{"pod":"a/b","uid":"u","since":"2026-01-02T03:04:05Z","cordoned":true,"labels":{"nvidia.com/gpu.deploy.dcgm":"true"}}`)
	for _, labels := range []string{`"nvidia.com/gpu.deploy.driver":"true"`, `"device-plugin":"true"`, `"nvidia.com/gpu.deploy.dcgm":"` + pausedSuffix + `"`} {
		f.Add(`{"labels":{` + labels + `}}`)
	}
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRecord(text)
		if err != nil {
			return
		}
		for key, value := range r.Labels {
			if _, ok := (&Agent{cfg: Config{ResourceClaims: true}}).toPause(map[string]string{key: value})[key]; !ok || len(validation.IsValidLabelValue(value)) > 0 {
				t.Errorf("%q gives label %q the value %q", text, key, value)
			}
		}
		again, err := parseRecord(r.String())
		if err != nil && len(text) < maxRecord/8 || err == nil && again.changes() != r.changes() {
			t.Errorf("%q is not read again as it was: %v", text, err)
		}
	})
}
