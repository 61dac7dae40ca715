package kubernetes

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/status"
)

// sentinel has the values of NVSentinel that docs/configuration/kubernetes-object-monitor.md there explains, as far as
// policies for nodes have them.
type sentinel struct {
	Global struct {
		Monitor struct {
			Enabled bool `yaml:"enabled"`
		} `yaml:"kubernetesObjectMonitor"`
	} `yaml:"global"`
	Monitor struct {
		Policies []struct {
			Name      string            `yaml:"name"`
			Enabled   bool              `yaml:"enabled"`
			Resource  map[string]string `yaml:"resource"`
			Predicate struct {
				Expression string `yaml:"expression"`
			} `yaml:"predicate"`
			Event struct {
				Class  string   `yaml:"componentClass"`
				Fatal  bool     `yaml:"isFatal"`
				Text   string   `yaml:"message"`
				Action string   `yaml:"recommendedAction"`
				Codes  []string `yaml:"errorCode"`
			} `yaml:"healthEvent"`
		} `yaml:"policies"`
	} `yaml:"kubernetes-object-monitor"`
}

// detector is a configuration of node-problem-detector (pkg/custompluginmonitor/types), as far as the page has its fields.
type detector struct {
	Plugin, Source string
	PluginConfig   struct {
		Interval string `json:"invoke_interval"`
		Timeout  string
	}
	Conditions []struct{ Type, Reason, Message string }
	Rules      []struct {
		Type, Condition, Reason, Path string
		Args                          []string
	}
}

// TestMonitors: the page's examples for other projects have fields that these know, and find the states that are faults.
func TestMonitors(t *testing.T) {
	t.Parallel()
	page := string(require.Value(os.ReadFile("../../docs/operate.md"))(t))
	block := func(from, to string) string {
		_, text, _ := strings.Cut(page, "\n    "+from)
		text, _, found := strings.Cut(text, to)
		assert.Equalf(t, true, found, "the page has %s", from)
		return strings.ReplaceAll(from+text, "\n    ", "\n")
	}
	var values sentinel
	read := require.Value(yaml.NewLoader(strings.NewReader(block("global: ", "\n\nnode-problem")), yaml.WithKnownFields()))(t)
	require.NoError(t, read.Load(&values))
	strict := json.NewDecoder(strings.NewReader(block(`{"plugin"`, "\n\n")))
	strict.DisallowUnknownFields()
	var d detector
	require.NoError(t, strict.Decode(&d))
	assert.Equalf(t, d.Conditions[0].Type, d.Rules[0].Condition, "the condition of the rule")
	plugin := filepath.Join(t.TempDir(), "plugin")
	require.NoError(t, os.WriteFile(plugin, []byte(block("#!/bin/sh", "\n\n")+"\n"), 0o600))

	shape := regexp.MustCompile(`^resource\.status\.conditions\.exists\(c, c\.type == "(\w+)" && c\.status == "(\w+)" && c\.reason in (\[.*\])\)$`)
	for _, state := range status.States() {
		st := status.Snapshot{State: state, Reason: "a reason"}
		c, found := conditionOf(st), ""
		for _, p := range values.Monitor.Policies {
			m := shape.FindStringSubmatch(p.Predicate.Expression)
			if m == nil || !p.Enabled || p.Resource["kind"] != "Node" || p.Event.Action != "CONTACT_SUPPORT" {
				t.Fatalf("the policy %+v", p)
			}
			var reasons []string
			require.NoError(t, json.Unmarshal([]byte(m[3]), &reasons))
			for _, reason := range reasons {
				if m[1] == conditionType && m[2] == c.Status && reason == c.Reason {
					found += p.Name
				}
			}
		}
		want := map[status.State]string{status.Failed: "nvidia-driver-failed", status.Degraded: "nvidia-driver-failed", status.Restored: "nvidia-driver-restored"}[state]
		assert.Equalf(t, want, found, "NVSentinel's policy for %s", state)

		file := filepath.Join(t.TempDir(), "driver-status.json")
		var text bytes.Buffer
		require.NoError(t, json.Indent(&text, require.Value(json.Marshal(st))(t), "", "  "))
		require.NoError(t, os.WriteFile(file, text.Bytes(), 0o600))
		out, err := exec.Command("sh", plugin, file).Output()
		assert.Equalf(t, want == "nvidia-driver-failed", err != nil, "the plugin's exit status for %s", state)
		assert.Equal(t, "  \"reason\": \"a reason\",\n", string(out))
	}
	assert.NoError(t, exec.Command("sh", plugin, filepath.Join(t.TempDir(), "none")).Run())
}
