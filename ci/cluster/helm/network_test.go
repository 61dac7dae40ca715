package helm

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// connection is one that a pod opens to any address, or a client to a pod.
type connection struct {
	Port     int32
	Protocol core.Protocol
}

// candidates are the ports that values of this test name, and others.
var candidates = []int32{1, 22, 53, 80, 443, 3128, 5353, 6443, 7070, 8080, 8081, 8443, 9835, 50000}

// TestNetworkPolicy renders random values and asks for each connection whether the policy admits it: those that the
// values need, and no others.
func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	control.Gate(t)
	file := filepath.Join(t.TempDir(), "values.json")
	rapid.Check(t, func(r *rapid.T) {
		d := drawNetwork(r)
		require.NoError(t, os.WriteFile(file, require.Value(json.Marshal(d.values))(t), 0o600))
		text, err := template(t, append(minimal(), "--show-only", "templates/networkpolicy.yaml", "--values", file)...)
		if err != nil {
			r.Fatal(err)
		}
		policy := readPolicy(t, text)
		for _, port := range candidates {
			for _, protocol := range []core.Protocol{core.ProtocolTCP, core.ProtocolUDP} {
				c := connection{port, protocol}
				got := admitsOut(policy, c)
				if got != d.needed[c] {
					r.Fatalf("%v out: %v, needed %v\n%v\n%s", c, got, d.needed[c], d.values, text)
				}
				if admitsIn(policy, intstr.FromInt32(port), protocol) {
					r.Fatalf("%v in\n%s", c, text)
				}
			}
		}
		metrics := admitsIn(policy, intstr.FromString("metrics"), core.ProtocolTCP)
		if metrics != d.metrics {
			r.Fatalf("metrics in: %v\n%s", metrics, text)
		}
	})
}

// drawn are values, the connections to other hosts that they need, and whether they serve metrics.
type drawn struct {
	values  map[string]any
	needed  map[connection]bool
	metrics bool
}

// need adds connections.
func (d drawn) need(protocol core.Protocol, ports ...int32) {
	for _, port := range ports {
		d.needed[connection{port, protocol}] = true
	}
}

// drawNetwork returns random values that the policy follows from.
func drawNetwork(r *rapid.T) drawn {
	flag := func(name string) bool { return rapid.Bool().Draw(r, name) }
	ports := func(name string) []int32 {
		return rapid.SliceOfN(rapid.SampledFrom([]int32{80, 443, 3128, 6443, 8443}), 0, 3).Draw(r, name)
	}
	server := ports("API server")
	repositories := ports("repositories")
	licences := ports("licences")
	events := flag("events")
	headers := flag("headers")
	licence := flag("licence")
	policy := map[string]any{"enabled": true, "apiServerPorts": server, "repositoryPorts": repositories, "licensePorts": licences}
	d := drawn{needed: map[connection]bool{}, metrics: flag("metrics")}
	d.values = map[string]any{
		"networkPolicy": policy, "metrics": map[string]any{"enabled": d.metrics}, "fetchHeaders": headers, "events": events,
	}
	if flag("more") {
		policy["extraEgress"] = []any{map[string]any{"ports": []any{map[string]any{"port": 22}}}}
		d.need(core.ProtocolTCP, 22)
	}
	if events {
		d.need(core.ProtocolTCP, server...)
	}
	if licence {
		d.values["vgpu"] = map[string]any{"licensing": map[string]any{"secretName": "licence"}}
		d.need(core.ProtocolTCP, licences...)
	}
	named := drawURLs(r, d.values)
	if headers {
		d.need(core.ProtocolTCP, slices.Concat(repositories, named)...)
	}
	if licence || headers {
		d.need(core.ProtocolTCP, 53, 5353)
		d.need(core.ProtocolUDP, 53, 5353)
	}
	return d
}

// urls are addresses of proxies and repositories, with their ports.
var urls = map[string]int32{
	"http://proxy": 80, "https://proxy": 443, "http://proxy:8080": 8080, "https://user:p4ss@proxy:8081/": 8081, "proxy:8080": 8080,
	"http://[fd00::1]:8443": 8443, "http://[fd00::1]/a:1": 80, "https://mirror.example.com:8443/debian": 8443, "HTTPS://proxy": 443,
}

// drawURLs adds proxies and repositories to values, and returns their ports.
func drawURLs(r *rapid.T, values map[string]any) []int32 {
	url := rapid.SampledFrom(slices.Sorted(maps.Keys(urls)))
	var ports []int32
	draw := func(name string, where func(url string)) {
		if rapid.Bool().Draw(r, name) {
			given := url.Draw(r, name)
			where(given)
			ports = append(ports, urls[given])
		}
	}
	draw("httpsProxy", func(url string) { values["proxies"] = map[string]any{"httpsProxy": url} })
	draw("env", func(url string) { values["env"] = []any{map[string]any{"name": "http_proxy", "value": url}} })
	repository := rapid.SampledFrom([]string{"http://mirror:8080/debian", "https://[fd00::1]:8443/x", "https://mirror/y"})
	if rapid.Bool().Draw(r, "files") {
		given := repository.Draw(r, "files")
		values["repoConfig"] = map[string]any{"files": map[string]any{"a.list": "deb [signed-by=/a] " + given + " bookworm main\n# none\n"}}
		ports = append(ports, map[string]int32{"http://mirror:8080/debian": 8080, "https://[fd00::1]:8443/x": 8443, "https://mirror/y": 443}[given])
	}
	return ports
}

// readPolicy decodes a rendered policy.
func readPolicy(t *testing.T, text string) network.NetworkPolicySpec {
	t.Helper()
	var object any
	require.NoError(t, yaml.Unmarshal([]byte(text), &object))
	var policy network.NetworkPolicy
	require.NoError(t, json.Unmarshal(require.Value(json.Marshal(object))(t), &policy))
	return policy.Spec
}

// admitsOut says whether pods of a policy may open a connection to any address.
func admitsOut(policy network.NetworkPolicySpec, c connection) bool {
	if !slices.Contains(policy.PolicyTypes, network.PolicyTypeEgress) {
		return true
	}
	return slices.ContainsFunc(policy.Egress, func(rule network.NetworkPolicyEgressRule) bool {
		return len(rule.To) == 0 && admitsPort(rule.Ports, intstr.FromInt32(c.Port), c.Protocol)
	})
}

// admitsIn says whether any client may connect to a port of the pods.
func admitsIn(policy network.NetworkPolicySpec, port intstr.IntOrString, protocol core.Protocol) bool {
	if !slices.Contains(policy.PolicyTypes, network.PolicyTypeIngress) {
		return true
	}
	return slices.ContainsFunc(policy.Ingress, func(rule network.NetworkPolicyIngressRule) bool {
		return len(rule.From) == 0 && admitsPort(rule.Ports, port, protocol)
	})
}

// admitsPort says whether a rule's list has the port. Without a list a rule admits every port, and without a port an
// item of the list those of its protocol.
func admitsPort(ports []network.NetworkPolicyPort, port intstr.IntOrString, protocol core.Protocol) bool {
	if len(ports) == 0 {
		return true
	}
	return slices.ContainsFunc(ports, func(p network.NetworkPolicyPort) bool {
		own := core.ProtocolTCP
		if p.Protocol != nil {
			own = *p.Protocol
		}
		return own == protocol && (p.Port == nil || *p.Port == port)
	})
}

// TestNetworkPolicyReader shows that the reader sees what Kubernetes sees in rules that are empty.
func TestNetworkPolicyReader(t *testing.T) {
	t.Parallel()
	for rules, want := range map[string]string{
		"": "[]", "egress: [{}]": "[443 22]", "egress: [{ports: []}]": "[443 22]", "egress: [{ports: }]": "[443 22]",
		"egress: [{ports: [{protocol: TCP}]}]": "[443 22]", "egress: [{ports: [{port: 443}]}]": "[443]", "egress: [{ports: [{port: 443, protocol: UDP}]}]": "[]",
		"egress: [{to: [{podSelector: {}}]}]": "[]",
	} {
		policy := readPolicy(t, "spec:\n  policyTypes: [Egress]\n  "+rules+"\n")
		var admitted []int32
		for _, port := range []int32{443, 22} {
			if admitsOut(policy, connection{port, core.ProtocolTCP}) {
				admitted = append(admitted, port)
			}
		}
		assert.Equalf(t, want, fmt.Sprint(admitted), "%s", strings.TrimSpace(rules))
	}
}
